"""headnode verify."""

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import NodeSetType, confirm_count, context, note, yes_option

if TYPE_CHECKING:
    from headnode.model import Node


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option(
    "--burn-in", "burn_in", metavar="DURATION", help="Also work for so long with what is installed (30m, 8h)."
)
@click.option("--no-wait", is_flag=True, help="Ask, and do not wait for the answers.")
@click.option("--last", is_flag=True, help="Do not ask; show what they said last.")
@click.option(
    "-o", "--output", type=click.Choice(("folded", "json")), default="folded", show_default=True, help="Format."
)
@yes_option
@click.pass_context
def verify(
    ctx: click.Context, nodeset: str, burn_in: str | None, no_wait: bool, last: bool, output: str, yes: bool
) -> None:
    """Have running nodes show that they are what was asked for.

    Disks, mounts, names, memory, links and GPUs are checked on each node against its profile and its inventory; a node
    that passes is up, one that does not has failed. Nodes of a profile that differ from the others are named. A burn-in
    runs stress-ng, DCGM's diagnostics, gpu_burn and NCCL's tests where they are installed; users will notice.

    \b
    Examples:
      headnode verify gpu07
      headnode verify @a100 -o json
      headnode verify gpu[01-16] --burn-in 30m
      headnode verify @all --last
    """
    from headnode.workflows import verify as workflow
    from headnode.workflows.burnin import burned_in, write_report
    from headnode.workflows.choosing import select
    from headnode.workflows.discovery import parse_duration

    at = context(ctx)
    nodes = select(at, nodeset)
    if not last:
        duration = parse_duration(burn_in, "--burn-in") if burn_in else None
        if duration:
            confirm_count("Burn in", nodes, yes)
        workflow.ask(at, nodes, duration)
        if no_wait:
            note("Asked. 'headnode verify --last' shows what they say.")
            return
        nodes = workflow.wait(at, [node.name for node in nodes], progress(len(nodes)))
    said = workflow.reports(at, nodes)
    odd = workflow.compare(nodes, said)
    if output == "json":
        click.echo(json.dumps(workflow.document(nodes, said), indent=2))
    else:
        show(nodes, said, [str(item) for item in odd])
    # A program that only reads what was said has no use for a file.
    if burned_in(said) and not (last and output == "json"):
        note(f"Report with plots: {write_report(at, said, [str(item) for item in odd])}")
    if any(node.state != "up" for node in nodes):
        ctx.exit(1)


def progress(total: int) -> Any:
    def tick(nodes: "list[Node]") -> None:
        if sys.stderr.isatty():
            waiting = sum(node.state == "verifying" for node in nodes)
            click.echo(f"\r\x1b[K{f'waiting for {waiting} of {total}' if waiting else ''}", nl=False, err=True)

    return tick


def show(nodes: "list[Node]", said: Any, odd: list[str]) -> None:
    """Nodes that say the same share a line: first what is wrong."""
    from headnode.nodeset import fold

    lines: dict[str, list[str]] = {}
    for node in nodes:
        wrong = [check for check in said[node.name] if not check.get("ok")]
        good = f"{len(said[node.name])} checks passed"
        for line in [f"{c.get('name')}: {c.get('message')}" for c in wrong] or [
            good if said[node.name] else "no report"
        ]:
            lines.setdefault(line, []).append(node.name)
        if node.state == "failed" and not wrong:
            lines.setdefault(str(node.reason), []).append(node.name)
    for line, names in sorted(lines.items(), key=lambda item: ("passed" in item[0], -len(item[1]))):
        click.echo(f"{fold(names)}: {line}")
    for line in odd:
        click.echo(f"outlier: {line}")
