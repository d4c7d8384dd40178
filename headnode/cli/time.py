"""headnode time."""

import click

from headnode.cli.common import NodeSetType, context, emit, output_option


@click.command("time")
@click.argument("nodeset", required=False, type=NodeSetType())
@output_option()
@click.pass_context
def time_(ctx: click.Context, nodeset: str | None, output: str) -> None:
    """Show how far every node's clock is off.

    Every node is asked now, over NTP; one that does not answer is shown with what it said when it was verified, and how
    old that is. The head node comes first, then clocks that are wrong, then the rest. Exit code 0 when all are
    synchronised and within time.max_offset_ms, 1 otherwise.

    \b
    Examples:
      headnode time
      headnode time gpu[01-08] -o json
    """
    from headnode.workflows import clocks
    from headnode.workflows.choosing import select

    at = context(ctx)
    found = clocks.readings(at, select(at, nodeset))
    rows = [
        {
            "name": reading.node,
            "state": reading.state,
            "offset_ms": None if reading.offset_ms is None else round(reading.offset_ms, 3),
            "stratum": reading.stratum,
            "age_seconds": None if reading.age is None else round(reading.age),
            "source": reading.source,
        }
        for reading in found
    ]
    emit(rows, output, ["name", "state", "offset_ms", "stratum", "age_seconds", "source"])
    ctx.exit(1 if any(reading.bad for reading in found) else 0)
