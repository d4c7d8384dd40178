"""headnode up, check, discover, seen, service, units."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headnode.cli.common import confirm, context, emit, note, output_option, warn, yes_option
from headnode.errors import counted

if TYPE_CHECKING:
    from headnode.workflows.context import Context


@click.command()
@click.pass_context
def up(ctx: click.Context) -> None:
    """Run the head node's services in the foreground.

    DHCP, TFTP, DNS, HTTP and Headnode's own processes, restarted when they end and stopped together with Ctrl-C. It
    refuses to start when another DHCP server answers on the provision interface. On an installed head node systemd runs
    the same services; this is for labs, containers and a first look.

    \b
    Examples:
      headnode up
      headnode -v up
    """
    from headnode.log import configure
    from headnode.workflows import serve

    configure()
    at = context(ctx)
    # Before anything is started: each service that needs it would say the same, one after another.
    serve.require_interface(at, "provision")
    supervisor = serve.supervisor(at)

    def ready() -> None:
        note(f"Ready: serving {at.inventory.count()} nodes on {at.site.provision.interface}. Ctrl-C stops.")
        note(welcome(at))

    supervisor.on_ready = ready
    ctx.exit(supervisor.run())


def welcome(at: "Context") -> str:
    """Where the pages are; before anybody can log in, the link that makes the first admin."""
    from headnode.workflows import doors

    try:
        link = (at.paths.runtime / "first-admin").read_text().strip()
    except OSError:
        return f"Pages: {doors.address(at)}"
    return f"Pages: create the first admin at {link} (this link works once)"


@click.command()
@output_option()
@click.pass_context
def check(ctx: click.Context, output: str) -> None:
    """Check that this machine can serve the cluster.

    Interfaces and addresses, foreign DHCP servers, ports, boot programs, neighbour-table limits, disk space and clock.
    Exit code 0 when nothing failed, 1 otherwise.

    \b
    Examples:
      headnode check
      headnode check -o json
    """
    from headnode.workflows import check as workflow

    found = list(workflow.check(context(ctx)))
    rows = [{"name": f.check, "result": f.result.value, "message": f.message, "hint": f.hint or None} for f in found]
    emit(rows, output, ["result", "name", "message"], ["hint"])
    if output == "table":
        for hint in dict.fromkeys(one.hint for one in found if one.hint):
            note(f"  hint: {hint} ({', '.join(one.check for one in found if one.hint == hint)})")
    ctx.exit(1 if any(f.result is workflow.Result.FAILED for f in found) else 0)


@click.command()
@click.option("--for", "duration", default="30m", show_default=True, help="How long, such as 90s, 30m or 2h.")
@click.option("--range", "lent", help="Lend only these addresses, a part of the site's discovery_range.")
@click.option("--close", "closing", is_flag=True, help="Close the window now.")
@yes_option
@click.pass_context
def discover(ctx: click.Context, duration: str, lent: str | None, closing: bool, yes: bool) -> None:
    """Lend addresses to unknown hardware for a while.

    Only while the window is open does unknown hardware on the provision network get an address; it is then inspected
    and listed by 'headnode seen'. The window closes by itself.

    \b
    Examples:
      headnode discover --for 30m
      headnode discover --for 10m --range 10.20.255.0-10.20.255.31
      headnode discover --close
    """
    from headnode.cli.publish import publish_and_tell
    from headnode.workflows import discovery

    at = context(ctx)
    if closing:
        note("Closed." if discovery.close(at, "by hand") else "No discovery window is open.")
    else:
        length = discovery.parse_duration(duration)
        chosen = discovery.range_to_lend(at, lent)
        confirm(f"Lend {chosen} to any machine on {at.site.provision.interface} for {duration}?", yes)
        window = discovery.open_for(at, length, lent)
        note(f"Open until {window.until:%F %T} UTC, lending {window.first}-{window.last}.")
    publish_and_tell(at)


@click.command()
@output_option()
@click.pass_context
def seen(ctx: click.Context, output: str) -> None:
    """List unknown hardware that asked for an address.

    \b
    Examples:
      headnode seen
      headnode enroll gpu07 --seen --profile gpu
    """
    from headnode.workflows import discovery

    at = context(ctx)
    warn([f"a foreign DHCP server answers {server}" for server in discovery.foreign_servers(at)])
    rows = [
        {
            "name": sighting.mac,
            "mac": sighting.mac,
            "vendor": discovery.vendor(sighting.mac),
            "first": sighting.first.isoformat(timespec="seconds"),
            "last": sighting.last.isoformat(timespec="seconds"),
            "architecture": sighting.architecture,
            "client_id": sighting.client_id,
        }
        for sighting in discovery.seen(at)
    ]
    if not rows and output in ("table", "wide"):
        note("Nothing unknown has asked for an address.")
        return
    emit(rows, output, ["mac", "vendor", "first", "last", "architecture", "client_id"])


@click.group(hidden=True)
def service() -> None:
    """Run or describe single services; for systemd.

    \b
    Examples:
      headnode service units --directory /etc/systemd/system
      headnode service run dnsmasq
    """


@service.command("run")
@click.argument("name")
@click.pass_context
def run_service(ctx: click.Context, name: str) -> None:
    """Run one service; systemd restarts it.

    \b
    Examples:
      headnode service run dnsmasq
    """
    from headnode.log import configure
    from headnode.workflows import serve

    configure()
    ctx.exit(serve.supervisor(context(ctx), only=name).run())


@service.command()
@click.pass_context
def migrate(ctx: click.Context) -> None:
    """Bring the database up to date.

    Every command does so by itself; an upgrade does it while nothing else runs.

    \b
    Examples:
      headnode service migrate
    """
    note(f"The database is up to date and has {counted(context(ctx).inventory.count(), 'node')}.")


@service.command()
@click.option(
    "--directory", type=click.Path(path_type=Path, file_okay=False), help="Write them here instead of printing."
)
@click.option("--program", default=None, help="How systemd starts headnode; this program when not given.")
@click.pass_context
def units(ctx: click.Context, directory: Path | None, program: str | None) -> None:
    """Print the systemd units.

    \b
    Examples:
      headnode service units
      headnode service units --directory /etc/systemd/system
    """
    from headnode.units import unit_files

    at = context(ctx)
    files = unit_files(at.site, at.paths, program or str(Path(sys.argv[0]).resolve()))
    for name, text in files.items():
        if directory is None:
            click.echo(f"==> {name} <==\n{text}")
        else:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
    if directory is not None:
        for old in {*directory.glob("headnode-*.service")} - {directory / name for name in files}:
            old.unlink()
        note(f"Wrote the units to {directory}; next: systemctl daemon-reload")
