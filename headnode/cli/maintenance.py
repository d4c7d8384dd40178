"""headnode maintain, resume."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headnode.cli.common import NodeSetType, confirm_count, context, dry_run_option, note, yes_option

if TYPE_CHECKING:
    from headnode.workflows.maintenance import Move


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever wonders.")
@dry_run_option
@yes_option
@click.pass_context
def maintain(ctx: click.Context, nodeset: str, reason: str, dry_run: bool, yes: bool) -> None:
    """Take nodes out of service for a while.

    Nothing on them is touched: they boot from their disks, and can be switched, rescued and looked at. Nothing can be
    deployed on them, what was under way ends, they count as no trouble in 'headnode status', and nobody is told of what
    happens to them, until 'headnode resume'.

    \b
    Examples:
      headnode maintain gpu07 --reason 'DIMM A3 is to be replaced'
      headnode maintain @rack12 --dry-run
    """
    from headnode.nodeset import fold
    from headnode.workflows import maintenance as workflow
    from headnode.workflows.choosing import select

    at = context(ctx)
    nodes = select(at, nodeset)
    moves = workflow.plan_maintain(nodes, reason.strip())
    if dry_run:
        show(moves)
        return
    changing = [move.node for move in moves if move.after != move.node]
    if not changing:
        note("Nothing to do: in maintenance already.")
        return
    confirm_count("Take into maintenance", changing, yes)
    note(f"In maintenance: {fold(workflow.maintain(at, [node.name for node in changing], reason.strip()))}.")


@click.command()
@click.argument("nodeset", type=NodeSetType())
@dry_run_option
@yes_option
@click.pass_context
def resume(ctx: click.Context, nodeset: str, dry_run: bool, yes: bool) -> None:
    """Take nodes back into service.

    A node with an installed system has to show that it is what was asked for, as after its installation, and is up when
    it passes. A node with none is ready to be deployed.

    \b
    Examples:
      headnode resume gpu07
      headnode resume @rack12 --dry-run
    """
    from headnode.nodeset import fold
    from headnode.workflows import maintenance as workflow
    from headnode.workflows.choosing import select

    at = context(ctx)
    nodes = select(at, nodeset)
    moves = workflow.plan_resume(at, nodes)
    if dry_run:
        show(moves)
        return
    confirm_count("Take back into service", nodes, yes)
    done = workflow.resume(at, [node.name for node in nodes])
    for state, said in (("verifying", "'headnode verify --last' shows what they say"), ("ready", "nothing installed")):
        if names := [node.name for node in done if node.state == state]:
            note(f"{state.capitalize()}: {fold(names)}; {said}.")


def show(moves: "Sequence[Move]") -> None:
    """Nodes with the same before them share a line."""
    from headnode.nodeset import fold

    alike: dict[str, list[str]] = {}
    for move in moves:
        alike.setdefault(move.text, []).append(move.node.name)
    for text, names in alike.items():
        click.echo(f"{fold(names)}: {text}")
    note("Dry run: nothing was changed.")
