"""The documentation cannot drift from the code."""

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest

from headnode.cli import COMMANDS, cli
from headnode.cli.reference import commands, pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", sorted(pages()))
def test_generated_pages_are_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text() == pages()[page], "run 'make docs' and commit what it writes"


ALL = list(commands(cli, ("headnode",)))
EVERYTHING = pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])


@EVERYTHING
def test_every_command_and_group_is_documented_with_examples(path: tuple[str, ...], command: click.Command) -> None:
    assert f"## {' '.join(path)}\n" in (DOCS / "reference/cli.md").read_text()
    found = examples(command)
    assert any(" ".join(path) in line for line in found), f"{' '.join(path)} --help has no examples of its own"


@EVERYTHING
def test_every_example_can_be_typed(path: tuple[str, ...], command: click.Command) -> None:
    for line in examples(command):
        # What a shell would put in, and then only what Headnode itself is given: not where its output goes.
        words = shlex.split(re.sub(r"\$\((?!headnode)[^)]*\)", "x", line).replace("$(", "").replace(')"', '"'))
        words = words if "headnode" in words else shlex.split(words[-1])
        ours = list(itertools.takewhile(lambda word: word[0] not in "|<>", words[words.index("headnode") + 1 :]))
        try:
            parse(cli, ours)
        except click.ClickException as error:
            if "does not exist" not in error.format_message():  # a file of the example need not be here
                pytest.fail(f"{line}: {error.format_message()}")


def examples(command: click.Command) -> list[str]:
    _, _, after = (command.help or "").partition("Examples:\n")
    lines = after.partition("\n\n")[0].replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip()]


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """As click would, and without running anything."""
    with command.make_context(command.name, words, parent=parent) as ctx:
        if isinstance(command, click.Group):
            _, found, more = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
            assert found is not None
            parse(found, more, ctx)


def test_an_example_that_cannot_be_typed_is_noticed() -> None:
    for words in (["nodes", "--nosuch"], ["user", "nosuch"], ["power", "sideways", "gpu01"], ["set", "gpu01"]):
        with pytest.raises(click.ClickException):
            parse(cli, words)


def test_the_one_line_help_is_the_first_line_of_the_commands_own() -> None:
    with click.Context(cli) as ctx:
        for name, (_, line) in COMMANDS.items():
            command = cli.get_command(ctx, name)
            assert command is not None
            assert (command.help or "").splitlines()[0] == line
