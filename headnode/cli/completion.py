"""headnode completion."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell's completion script.

    It completes commands, options, node names and profiles.

    \b
    Examples:
      eval "$(headnode completion bash)"
      headnode completion zsh > ~/.zfunc/_headnode
    """
    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - click knows all three
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "headnode", "_HEADNODE_COMPLETE").source())
