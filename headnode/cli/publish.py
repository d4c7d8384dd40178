"""headnode publish, render, diff."""

import difflib
from typing import TYPE_CHECKING

import click

from headnode.cli.common import NodeSetType, context, dry_run_option, note, printable, warn
from headnode.errors import InvalidInput, NotFound, PublishFailed, counted, shown

if TYPE_CHECKING:
    from headnode.workflows.context import Context


@click.command()
@click.option(
    "--full",
    is_flag=True,
    help="Compare every file, not only those of changed nodes, and remove what nobody published.",
)
@dry_run_option
@click.pass_context
def publish(ctx: click.Context, full: bool, dry_run: bool) -> None:
    """Make the configuration of every changed node live.

    New files are checked by the programs that will read them before any of them is swapped in; when one is
    refused, everything stays as it was.

    With --full, files that were changed by hand are put right, and what is in the published tree and is not known to
    the inventory goes: entries of nodes that a lost or replaced database had. 'headnode diff' shows them first.

    \b
    Examples:
      headnode publish
      headnode publish --dry-run
      headnode publish --full
    """
    at = context(ctx)
    if not dry_run:
        publish_and_tell(at, full=full)
        return
    from headnode.workflows import publishing

    changes, warnings = publishing.rehearse(at, full=full)
    warn(warnings)
    for change in changes:
        click.echo(f"{'remove' if change.then is None else 'write'} {on_one_line(change.path)}")
    note(f"Dry run: {counted(len(changes), 'file')} would change.")


def publish_after_change(at: "Context") -> None:
    """The change is made: that it cannot go live is a failure (1), no longer a refusal (2)."""
    try:
        publish_and_tell(at)
    except InvalidInput as error:
        message = f"the change is in the inventory and was not published:\n{error.message}"
        raise PublishFailed(message, hint=error.hint) from error


def publish_and_tell(at: "Context", *, full: bool = False) -> None:
    from headnode.workflows import publishing

    outcome = publishing.publish_changes(at, full=full)
    warn(outcome.warnings)
    if outcome.changed:
        note(f"Published {counted(len(outcome.written), 'file')}, removed {len(outcome.removed)}.")
    else:
        note("Nothing to publish: what is live is up to date.")


@click.command()
@click.argument("target", type=NodeSetType(), metavar="NODESET|FILE")
@click.option("--overlay", is_flag=True, help="The files written into the node's own system instead, less its secrets.")
@click.pass_context
def render(ctx: click.Context, target: str, overlay: bool) -> None:
    """Print a file, or all files of nodes, as they would be published.

    \b
    Examples:
      headnode render gpu01
      headnode render gpu[01-02]
      headnode render gpu01 --overlay
      headnode render dnsmasq/provision.conf
    """
    from headnode.workflows import publishing
    from headnode.workflows.choosing import select

    at = context(ctx)
    if "/" in target:
        file = publishing.render_file(at, target.lstrip("/"))
        if file is None:
            raise NotFound(f"no file {shown(target)} is published", hint="'headnode render NODE' lists a node's files")
        click.echo(file.content.decode(errors="replace"), nl=False)
        return
    for node in select(at, target):
        if overlay:
            for path, made in publishing.render_overlay(at, node).items():
                click.echo(f"==> {path} <== {made.mode:04o} {made.owner}")
                click.echo(made.content.decode(errors="replace"))
            continue
        for path, file in sorted(publishing.render_node(at, node).items()):
            click.echo(f"==> {path} <==")
            click.echo(file.content.decode(errors="replace"))


@click.command()
@click.pass_context
def diff(ctx: click.Context) -> None:
    """Show what a publish would change.

    Every file is compared, as by 'headnode publish --full': only that puts right what was changed by hand, and removes
    files that the inventory knows nothing of.

    Exit code 0 when there is nothing to publish, 1 when there is.

    \b
    Examples:
      headnode diff
    """
    from headnode.workflows import publishing

    changes = publishing.preview(context(ctx))
    for change in changes:
        path = on_one_line(change.path)
        names = f"live/{path}", "/dev/null" if change.then is None else f"new/{path}"
        lines = list(difflib.unified_diff(lines_of(change.now), lines_of(change.then), *names, lineterm=""))
        # One that is empty, or differs in its mode alone, is named all the same.
        click.echo("\n".join(lines or [f"--- {names[0]}", f"+++ {names[1]}"]))
    if strangers := sum(change.stranger for change in changes):
        note(f"Unknown to the inventory: {counted(strangers, 'file')}; only 'headnode publish --full' removes such.")
    if not changes:
        note("Nothing to publish: what is live is up to date.")
    ctx.exit(1 if changes else 0)


@click.command("known-hosts")
@click.argument("nodeset", type=NodeSetType(), required=False)
@click.pass_context
def known_hosts(ctx: click.Context, nodeset: str | None) -> None:
    """Print what SSH needs to know the nodes by.

    One line is enough for all nodes, those of next year too: it names the key that certifies their host keys. It is
    also published, as ssh/known_hosts below the published tree, and every node has it. With a node set, the host keys
    themselves are printed, for clients that know no certificates.

    \b
    Examples:
      headnode known-hosts > /etc/ssh/ssh_known_hosts
      headnode known-hosts @all >> ~/.ssh/known_hosts
    """
    from headnode.workflows import hostkeys
    from headnode.workflows.choosing import select
    from images.knownhosts import KNOWN_HOSTS, KnownHosts

    at = context(ctx)
    if nodeset is not None:
        click.echo(hostkeys.plain_lines(at, select(at, nodeset)), nl=False)
        return
    published = KnownHosts(hostkeys.authority_line(at, make=True)).site_files(at.site)
    click.echo(published[KNOWN_HOSTS].content.decode(), nl=False)


def on_one_line(path: str) -> str:
    """Anybody may have put a file there, under any name."""
    return printable([path])[0]


def lines_of(content: bytes | None) -> list[str]:
    """As a terminal may see them: it obeys control characters, and indents by tabs."""
    lines = [] if content is None else content.decode(errors="replace").splitlines()
    return ["\t".join(printable(line.split("\t"))) for line in lines]
