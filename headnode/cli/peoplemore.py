"""headnode user passwd, reader, import and audit."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import (
    NodeSetType,
    confirm,
    context,
    dry_run_option,
    emit,
    emit_start,
    note,
    output_option,
    printable,
    warn,
    yes_option,
)
from headnode.errors import InvalidInput, counted, shown

if TYPE_CHECKING:
    from headnode.workflows.peopleimport import Plan


password_options = [
    click.option("--password-file", type=click.Path(path_type=Path, dir_okay=False),
                 help="File with the password on its first line; never given as an argument."),
    click.option("--password-stdin", "from_input", is_flag=True,
                 help="Read the password from the first line of the input."),
]  # fmt: skip


def with_password(command: Any) -> Any:
    for option in reversed(password_options):
        command = option(command)
    return command


def given_password(file: Path | None, from_input: bool) -> str | None:
    from headnode.vault import read_password

    if file is not None and from_input:
        raise InvalidInput("use --password-file or --password-stdin, not both")
    if file is not None:
        return read_password(file)
    # Not splitlines(): what it takes for a line end may be part of a password.
    return sys.stdin.readline().removesuffix("\n").removesuffix("\r") if from_input else None


@click.command()
@click.argument("name", required=False)
@click.option("--break-glass", is_flag=True, help="Of the local account that nodes have (access.admin_user) instead.")
@with_password
@click.pass_context
def passwd(ctx: click.Context, name: str | None, break_glass: bool, password_file: Path | None,
           from_input: bool) -> None:  # fmt: skip
    """Set somebody's password.

    Asks for it twice, unless it comes from a file or the input. Nodes get the break-glass password when they are
    deployed, sealed until then.

    \b
    Examples:
      headnode user passwd alice
      headnode user passwd alice --password-stdin < /root/alice.password
      headnode user passwd --break-glass
    """
    from headnode.workflows import breakglass, people

    at = context(ctx)
    if break_glass == (name is not None):
        raise InvalidInput("say whose password: either NAME or --break-glass")
    password = given_password(password_file, from_input)
    if password is None:
        if not sys.stdin.isatty():
            raise InvalidInput("this is not a terminal, so nobody could be asked",
                               hint="use --password-stdin or --password-file")  # fmt: skip
        password = str(click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True))
    if name is None:
        breakglass.set_password(at, password)
        note(f"Kept for {at.site.access.admin_user}; nodes have it when they are deployed next.")
        return
    people.set_password(at, name, password)
    note(f"Set a password for {name}.")


@click.command("import")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--renumber", is_flag=True, help="Give everybody a new UID instead of the one in the file.")
@output_option()
@dry_run_option
@yes_option
@click.pass_context
def import_(ctx: click.Context, file: str, renumber: bool, output: str, dry_run: bool, yes: bool) -> None:
    """Add many people from a CSV or passwd file.

    Every row is judged first, and its problems named; all rows are taken or none. Running it again adds only whoever
    is missing. The columns of CSV are name, full_name, email, uid, groups, ssh_keys and shell. From a passwd file
    people are taken and accounts of the system are not; everybody's first group becomes their own.

    \b
    Examples:
      headnode user import people.csv --dry-run
      headnode user import people.csv --yes
      getent passwd | headnode user import - --renumber --yes
    """
    from headnode.cli.enroll import content
    from headnode.workflows import peopleimport, sheet

    at = context(ctx)
    (name,) = printable(["the input" if file == "-" else file])
    rows = peopleimport.read(sheet.decode(content(file), name), name, renumber=renumber)
    made = peopleimport.prepare(at, rows)
    if dry_run or made.problems or not yes:
        show_plan(made, output)
    if made.problems:
        raise InvalidInput("\n".join(made.problems[:200]), hint="nobody was added; correct these and run it again")
    if dry_run:
        note("Dry run: nothing was changed.")
        return
    if made.new:
        confirm(f"Add {counted(len(made.new), 'person').replace('persons', 'people')}?", yes)
    with click.progressbar(length=len(made.new), label="Adding", file=sys.stderr,
                           hidden=not sys.stderr.isatty()) as bar:  # fmt: skip
        added = peopleimport.carry_out(at, made, lambda count: bar.update(count - bar.pos))
    there = len(made.items) - len(added)
    note(f"Added {len(added)}; {there} were there already." if there else f"Added {len(added)}.")


def show_plan(made: "Plan", output: str) -> None:
    """The preview: rows with problems first, then the start of the rest."""
    from headnode.workflows.verdicts import Verdict

    rows: list[dict[str, Any]] = [
        {
            "name": item.name,
            "verdict": item.verdict,
            "uid": item.wish.number,
            "full_name": item.wish.full_name,
            "groups": list(item.wish.groups),
            "problem": "; ".join(item.problems) or None,
        }
        for item in made.worst_first
    ]
    if output not in ("table", "wide"):
        emit(rows, output, ["name"])
        return
    emit_start(rows, ["name", "verdict", "uid", "full_name", "groups", "problem"])
    counts = {verdict: len(made.of(verdict)) for verdict in Verdict}
    note(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))


@click.command()
@click.option("--password-file", type=click.Path(path_type=Path, dir_okay=False), required=True,
              help="Where to write its password; only you can read that file.")  # fmt: skip
@click.pass_context
def reader(ctx: click.Context, password_file: Path) -> None:
    """Hand out the account that other programs read the directory with.

    It can read everything but passwords and change nothing: for web pages, ticket systems and schedulers.

    \b
    Examples:
      headnode user reader --password-file /root/reader.password
    """
    from headnode.files import write_whole
    from headnode.workflows import people

    at = context(ctx)
    with people.directory(at, writing=True) as found:
        dn = found.tree.reader
    try:
        write_whole(password_file, people.reader_password(at).encode() + b"\n", 0o600)
    except OSError as error:
        raise InvalidInput(f"{shown(password_file)} cannot be written: {error.strerror}") from None
    click.echo(f"ldaps://head.{at.site.domain}\n{dn}")
    note(f"Its password is in {password_file}; the CA to trust is {at.paths.ca / 'ca.crt'}.")


@click.command()
@click.argument("nodeset", required=False, type=NodeSetType())
@output_option()
@click.pass_context
def audit(ctx: click.Context, nodeset: str | None, output: str) -> None:
    """Look for UIDs and names that mean two things.

    Compares the directory with the ledger of numbers, with this machine's accounts, with the owners of home directories
    and, over SSH as root, with the accounts, subordinate UIDs and shared file systems of nodes. Exit code 0 when all is
    well, 1 otherwise.

    \b
    Examples:
      headnode user audit
      headnode user audit gpu[01-16] -o json
    """
    from headnode.workflows import audit as workflow

    found = workflow.audit(context(ctx), nodeset)
    rows = [{"name": item.where, "where": item.where, "finding": item.message} for item in found.findings]
    if rows or output not in ("table", "wide"):
        emit(rows, output, ["where", "finding"])
    warn(found.unreachable)
    looked = f"{counted(found.people, 'person').replace('persons', 'people')}, {counted(found.nodes, 'node')} asked"
    note(f"{counted(len(found.findings), 'collision')} ({looked}).")
    ctx.exit(1 if found.findings or found.unreachable else 0)
