"""headnode console."""

import click


@click.command()
def console() -> None:
    """Open, replay or search the consoles of nodes.

    \b
    Examples:
      headnode console gpu07
    """
