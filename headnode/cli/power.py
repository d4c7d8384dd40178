"""headnode power, bootdev."""

import click

from headnode.cli.common import NodeSetType, confirm_count, context, dry_run_option, note, yes_option
from headnode.cli.folded import fanout_option, finish, folded_option, progress

# Switching on harms nobody; everything else ends what runs on a node.
DESTRUCTIVE = {"off": "Switch off", "cycle": "Power-cycle", "reset": "Reset", "soft": "Shut down"}


@click.command()
@click.argument("action", type=click.Choice(["on", "off", "cycle", "reset", "soft", "status"]))
@click.argument("nodeset", type=NodeSetType())
@fanout_option
@folded_option
@dry_run_option
@yes_option
@click.pass_context
def power(
    ctx: click.Context, action: str, nodeset: str, fanout: int | None, output: str, dry_run: bool, yes: bool
) -> None:
    """Switch nodes on and off, or tell whether they are on.

    The state is read back before success is told. 'soft' asks the operating system to shut down and does not wait.
    Nodes are switched on in waves that keep each rack below its budget in site.yaml. Locked nodes and the head node
    itself are refused. Exit code 1 when any node failed.

    \b
    Examples:
      headnode power status gpu[001-500]
      headnode power on @rack1
      headnode power cycle gpu07 --yes
      headnode power soft gpu[01-16] -o json
    """
    at = context(ctx)
    if action == "status":
        from headnode.workflows.asking import ask_set

        request = {"verb": "power", "action": "status", "fanout": fanout}
        finish(ctx, ask_set(at, nodeset, request, progress()), output)
        return
    from headnode.workflows import choosing
    from headnode.workflows import power as workflow

    nodes = choosing.select(at, nodeset)
    workflow.refuse_untouchable(at.site, nodes)
    if dry_run:
        waves = workflow.starts(at, nodes, action, fanout) if action in ("on", "cycle") else {}
        last = f", the last {max(waves.values()):g} s after the first" if waves else ""
        note(f"Would {DESTRUCTIVE.get(action, 'switch on').lower()} {len(nodes)} nodes{last}. Nothing was changed.")
        return
    if action in DESTRUCTIVE:
        confirm_count(DESTRUCTIVE[action], nodes, yes)
    finish(ctx, workflow.switch(at, nodes, action, fanout=fanout, on_answer=progress()), output)


@click.command()
@click.argument("device", type=click.Choice(["pxe", "disk", "bios", "none"]))
@click.argument("nodeset", type=NodeSetType())
@click.option("--once/--persistent", default=True, show_default=True, help="For the next start only, or from now on.")
@click.option("--uefi", is_flag=True, help="Ask for an UEFI boot, where the firmware could also start the old way.")
@fanout_option
@folded_option
@click.pass_context
def bootdev(
    ctx: click.Context, device: str, nodeset: str, once: bool, uefi: bool, fanout: int | None, output: str
) -> None:
    """Choose what nodes boot from next.

    The choice is read back from the BMC before success is told; 'none' takes it away, so that the firmware's own order
    counts. It takes effect at the next start: 'headnode power cycle' does that.

    \b
    Examples:
      headnode bootdev pxe gpu[01-16]
      headnode bootdev bios gpu07 --once
      headnode bootdev disk gpu07 --persistent
    """
    from headnode.workflows import choosing
    from headnode.workflows import power as workflow

    at = context(ctx)
    nodes = choosing.select(at, nodeset)
    request = {"verb": "bootdev", "device": device, "persistent": not once, "uefi": uefi, "fanout": fanout}
    finish(ctx, workflow.change(at, nodes, request, progress()), output)
