"""The documentation cannot drift from the code."""

from pathlib import Path

import click
import pytest

from headnode.cli import COMMANDS, cli
from headnode.cli.reference import commands, pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", sorted(pages()))
def test_generated_pages_are_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text() == pages()[page], "run 'make docs' and commit what it writes"


def test_every_command_is_documented_with_examples() -> None:
    page = (DOCS / "reference/cli.md").read_text()
    for path, command in commands(cli, ("headnode",)):
        assert f"## {' '.join(path)}\n" in page
        if not isinstance(command, click.Group):
            assert "Examples:" in (command.help or ""), f"{' '.join(path)} --help has no examples"


def test_the_one_line_help_is_the_first_line_of_the_commands_own() -> None:
    with click.Context(cli) as ctx:
        for name, (_, line) in COMMANDS.items():
            command = cli.get_command(ctx, name)
            assert command is not None
            assert (command.help or "").splitlines()[0] == line
