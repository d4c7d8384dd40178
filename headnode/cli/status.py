"""headnode status."""

import json

import click

from headnode.cli.common import context

MARKS = {"info": "ok", "warning": "warning", "error": "ERROR"}


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Choice(("text", "json", "prometheus")),
    default="text",
    show_default=True,
    help="Format.",
)
@click.pass_context
def status(ctx: click.Context, output: str) -> None:
    """Show the health of the whole cluster on one screen.

    The exit code is 0 when all is well, 1 for warnings and 2 for errors, as monitoring programs expect it.

    \b
    Examples:
      headnode status
      headnode status -o json
      headnode status -o prometheus > /var/lib/prometheus/node-exporter/headnode.prom
    """
    from headnode.workflows import status as workflow

    at = context(ctx)
    found = workflow.status(at)
    if output == "prometheus":
        click.echo(workflow.metrics(found), nl=False)
    elif output == "json":
        click.echo(json.dumps(found.document, indent=2))
    else:
        counted = ", ".join(f"{count} {state}" for state, count in found.states.items() if count) or "no nodes yet"
        click.echo(f"{at.site.cluster}: {counted}")
        for line in found.lines:
            click.echo(f"{MARKS[line.severity]:8} {line.what}: {line.words}")
            if line.hint and line.severity != "info":
                click.echo(f"         next: {line.hint}")
    ctx.exit(found.code)
