"""headnode why."""

import json
from typing import TYPE_CHECKING

import click

from headnode.cli.common import NodeSetType, context

if TYPE_CHECKING:
    from headnode.why.case import Answer

WORDS = {"high": "", "medium": "likely: ", "low": "perhaps: "}


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True, help="Format.")
@click.option("--evidence", is_flag=True, help="Show chain and evidence for node sets too.")
@click.pass_context
def why(ctx: click.Context, nodeset: str, output: str, evidence: bool) -> None:
    """Say why nodes are not up, and what to do about it.

    For each node: the steps it should have gone through, how far it got, the first thing that went wrong, what showed
    it, and the next command to try. Nodes with the same trouble share a line. The exit code is 1 when something is
    wrong.

    \b
    Examples:
      headnode why gpu07
      headnode why gpu[001-512]
      headnode why @all -o json
    """
    from headnode.workflows import why as workflow

    answers = workflow.why(context(ctx), nodeset)
    if output == "json":
        documents = [workflow.document(answer) for answer in answers]
        click.echo(json.dumps(documents if len(documents) != 1 else documents[0], indent=2))
    else:
        for names, answer in workflow.folded(answers):
            show(names, answer, whole=evidence or len(answers) == 1)
    if any(answer.finding for answer in answers):
        ctx.exit(1)


def show(names: list[str], answer: "Answer", whole: bool) -> None:
    from headnode.nodeset import fold
    from headnode.workflows.why import next_command

    found = answer.finding
    click.echo(f"{fold(names)}: {WORDS[found.confidence] if found else ''}{answer.sentence}")
    if whole:
        show_chain(answer)
    if found:
        click.echo(f"  next: {next_command(found, names)}")
    for other in answer.others if whole else ():
        click.echo(f"  also: {WORDS[other.confidence]}{other.sentence}")


def show_chain(answer: "Answer") -> None:
    when = f", {answer.asked.at:%H:%M:%S} UTC" if answer.asked.at else ""
    click.echo(f"  asked: {answer.asked}{when}; it is {answer.standing}")
    missing = next((step for step in answer.chain if not step.reached), None)
    for step in answer.chain:
        mark = "✓" if step.reached else "✗" if step is missing else "·"
        at = f"{step.at:%H:%M:%S}" if step.at else ""
        click.echo(f"  {mark} {at:8} {step.words}")
    for event in answer.finding.evidence if answer.finding else ():
        at = f"{event.at:%H:%M:%S}" if event.at else ""
        click.echo(f"  seen: {at} {event.kind}: {event.message}")
