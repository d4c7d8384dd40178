"""What commands share: the context, options, questions, and the formats of their output."""

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from headnode.errors import InvalidInput, counted

if TYPE_CHECKING:
    from headnode.model import Node
    from headnode.workflows.context import Context

# Up to here a plain yes is enough; beyond, the number of nodes has to be typed.
FEW = 3
# So many rows of a plan fit on most screens.
PREVIEW = 40
FORMATS = ("table", "wide", "json", "yaml", "csv", "name")
Document = Mapping[str, Any]


def context(ctx: click.Context) -> "Context":
    from headnode.paths import Paths
    from headnode.workflows.context import Context, who

    # Arguments never hold secrets, so the command itself is the cause of what it does.
    cause = " ".join(["headnode", *printable(sys.argv[1:])])[:500]
    made = Context(Paths(root_of(ctx)), actor=who(), cause=cause)
    ctx.call_on_close(made.close)
    return made


def root_of(ctx: click.Context) -> Path:
    root = ctx.find_root().obj or ctx.find_root().params.get("root") or "/"
    return Path(root).absolute()


def printable(words: Sequence[str]) -> list[str]:
    return ["".join(c if c.isprintable() else "�" for c in word) for word in words]


def output_option(default: str = "table") -> Callable[[Any], Any]:
    return click.option("-o", "--output", type=click.Choice(FORMATS), default=default, show_default=True,
                        help="Format; json, yaml and csv have the same fields everywhere.")  # fmt: skip


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask; for scripts.")
dry_run_option = click.option("-n", "--dry-run", is_flag=True, help="Show what would happen, and do nothing.")


class NodeSetType(click.ParamType[str]):
    """A node set; completes names from the inventory."""

    name = "nodeset"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        done, comma, last = incomplete.rpartition(",")
        return [CompletionItem(f"{done}{comma}{name}") for name in names_from_inventory(ctx, last)]


class ProfileType(click.ParamType[str]):
    name = "profile"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in profiles(ctx) if name.startswith(incomplete)]


def names_from_inventory(ctx: click.Context, prefix: str) -> list[str]:
    try:
        return context(ctx).only_looking().inventory.names(prefix)[:200]
    except Exception:  # noqa: BLE001 - completion must never print an error into somebody's prompt
        return []


def profiles(ctx: click.Context) -> list[str]:
    try:
        return list(context(ctx).site.profiles)
    except Exception:  # noqa: BLE001 - as above
        return []


def confirm(question: str, yes: bool) -> None:
    """Ask on a terminal; a script has to say --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("nothing was changed: this is not a terminal, so nobody could be asked", hint="add --yes")
    if not click.confirm(question, err=True):
        raise click.Abort


def confirm_count(verb: str, nodes: "Sequence[Node]", yes: bool) -> None:
    """More than a few nodes need their number typed: an answer that cannot be given by habit."""
    from headnode.nodeset import fold

    names = fold(node.name for node in nodes)
    if yes or len(nodes) <= FEW:
        confirm(f"{verb} {names}?", yes)
        return
    if not sys.stdin.isatty():
        raise InvalidInput("nothing was changed: this is not a terminal, so nobody could be asked", hint="add --yes")
    typed = click.prompt(f"{verb} {len(nodes)} nodes ({names}): type their number to go on", err=True)
    if str(typed).strip() != str(len(nodes)):
        raise InvalidInput(f"'{typed}' is not {len(nodes)}; nothing was changed")


def note(message: str) -> None:
    """Something for the person, kept out of what a script reads."""
    click.echo(message, err=True)


def warn(messages: Sequence[str]) -> None:
    for message in messages:
        click.echo(f"warning: {message}", err=True)


def emit(documents: Sequence[Document], output: str, columns: Sequence[str], wide: Sequence[str] = ()) -> None:
    """Print documents in one of the formats."""
    if output == "json":
        click.echo(json.dumps(list(documents), indent=2, default=str))
    elif output == "yaml":
        click.echo(to_yaml(list(documents)), nl=False)
    elif output == "csv":
        click.echo(to_csv(documents), nl=False)
    elif output == "name":
        for document in documents:
            click.echo(document["name"])
    else:
        click.echo(to_table(documents, (*columns, *wide) if output == "wide" else columns), nl=False)


def emit_start(rows: Sequence[Document], columns: Sequence[str]) -> None:
    """The start of what may be thousands of rows, as a table."""
    emit(rows[:PREVIEW], "table", columns)
    if len(rows) > PREVIEW:
        note(f"… and {counted(len(rows) - PREVIEW, 'more row')}")


def to_yaml(data: Any) -> str:
    import yaml

    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120))


def to_csv(documents: Sequence[Document]) -> str:
    stream = io.StringIO()
    columns = list(documents[0]) if documents else []
    writer = csv.writer(stream, lineterminator="\n")
    if columns:
        writer.writerow(columns)
    writer.writerows([cell(document.get(column), nested=True) for column in columns] for document in documents)
    return stream.getvalue()


def to_table(documents: Sequence[Document], columns: Sequence[str]) -> str:
    rows = [[cell(document.get(column)) or "-" for column in columns] for document in documents]
    widths = [max(len(row[i]) for row in [list(columns), *rows]) for i in range(len(columns))]
    lines = [[column.upper() for column in columns], *rows]
    return "".join("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n"
                   for line in lines)  # fmt: skip


def cell(value: Any, *, nested: bool = False) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(v, Mapping) for v in value)):
        return json.dumps(value) if nested else f"{len(value)}"
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return str(value)


def given_password(file: Path | None, what: str, instead: str, *, twice: bool) -> str:
    """A secret from a file, or typed unseen; never an argument."""
    from headnode import vault

    if file is not None:
        return vault.read_password(file)
    if not sys.stdin.isatty():
        raise InvalidInput(f"say which {what}: {instead}")
    return str(click.prompt(what, hide_input=True, confirmation_prompt=twice, err=True))
