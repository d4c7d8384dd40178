"""headnode inspect, deploy, rescue, abort."""

from typing import TYPE_CHECKING

import click

from headnode.cli.common import NodeSetType, confirm, confirm_count, context, dry_run_option, note, yes_option
from headnode.cli.watch import watch_until_done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headnode.model import Intent, Node
    from headnode.workflows.context import Context


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--watch", is_flag=True, help="Stay and show progress until all have finished, as it does without a BMC.")
@click.option("--no-power", is_flag=True, help="Do not touch the power; boot the nodes by hand.")
@dry_run_option
@yes_option
@click.pass_context
def inspect(ctx: click.Context, nodeset: str, watch: bool, no_power: bool, dry_run: bool, yes: bool) -> None:
    """Read the hardware of nodes.

    The nodes boot the ramdisk, report disks, memory, network cards and GPUs, and go on from their disks. Nothing on
    their disks is changed.

    \b
    Examples:
      headnode inspect gpu[01-16] --watch
    """
    from headnode.model import Intent

    work(context(ctx), nodeset, Intent.INSPECT, watch=watch, power=not no_power, dry_run=dry_run, yes=yes)


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--image", help="Image to deploy, such as gpu@3; the profile's newest when not given.")
@click.option(
    "--erase",
    "consent",
    multiple=True,
    metavar="SERIAL",
    help="This disk may be erased although it holds something that is not ours; repeat for more.",
)
@click.option("--watch", is_flag=True, help="Stay and show progress until all have finished, as it does without a BMC.")
@click.option("--no-power", is_flag=True, help="Do not touch the power; boot the nodes by hand.")
@dry_run_option
@yes_option
@click.pass_context
def deploy(
    ctx: click.Context,
    nodeset: str,
    image: str | None,
    consent: tuple[str, ...],
    watch: bool,
    no_power: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Install nodes.

    Each node boots the ramdisk, is partitioned by its layout, gets its image and its own files, and comes back from its
    disk. Its disks are erased, but for volumes with 'keep'. A dry run prints the exact plan for every disk, with serial
    numbers, sizes and what is lost, for nodes that have been inspected; its exit code is 1 when one would be refused.

    \b
    Examples:
      headnode deploy gpu01 --dry-run
      headnode deploy gpu[01-16] --image gpu@3 --watch
      headnode deploy gpu07 --erase S4EVNX0R123456
    """  # fmt: skip
    from headnode.model import Intent

    work(context(ctx), nodeset, Intent.DEPLOY, image=image, consent=consent, watch=watch, power=not no_power,
         dry_run=dry_run, yes=yes)  # fmt: skip


@click.command()
@click.argument("node", type=NodeSetType())
@click.option("--watch", is_flag=True, help="Stay until it can be logged in to, as it does without a BMC.")
@click.option("--no-power", is_flag=True, help="Do not touch the power; boot the node by hand.")
@yes_option
@click.pass_context
def rescue(ctx: click.Context, node: str, watch: bool, no_power: bool, yes: bool) -> None:
    """Boot a node into the rescue system.

    It runs in memory, changes nothing on the disks, has the node's own host keys, and lets in root with the site's
    admin_keys; on the console there is a shell. The next restart is from the disk again.

    \b
    Examples:
      headnode rescue gpu07
      headnode rescue gpu07 --watch
    """
    from headnode.model import Intent

    work(context(ctx), node, Intent.RESCUE, watch=watch, power=not no_power, yes=yes)


@click.command()
@click.argument("nodeset", type=NodeSetType())
@yes_option
@click.pass_context
def abort(ctx: click.Context, nodeset: str, yes: bool) -> None:
    """Stop what is under way on nodes.

    They count as failed with that reason, and boot from their disks next time; a node that is being written to is not
    switched off.

    \b
    Examples:
      headnode abort gpu[01-16]
    """
    from headnode.nodeset import fold
    from headnode.workflows import deploy as workflow
    from headnode.workflows.choosing import select

    at = context(ctx)
    names = [node.name for node in select(at, nodeset)]
    confirm(f"Stop what is under way on {fold(names)}?", yes)
    note(f"Stopped: {fold(workflow.abort(at, names))}.")


def work(
    at: "Context",
    nodeset: str,
    intent: "Intent",
    *,
    image: str | None = None,
    consent: tuple[str, ...] = (),
    watch: bool = False,
    power: bool = True,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    from headnode.workflows import deploy as workflow
    from headnode.workflows import planning
    from headnode.workflows.choosing import select
    from headnode.workflows.power import refuse_untouchable

    nodes = select(at, nodeset)
    workflow.refuse_unsuitable(nodes, intent)
    if power:
        refuse_untouchable(at.site, nodes)
    chosen = planning.image_for(at, nodes, image, consent) if intent == "deploy" else {}
    if dry_run:
        refused = [node.name for node in nodes if not show_plan(at, node, chosen.get(node.name), consent)]
    planning.refuse_without_ramdisk(at, nodes, intent)
    if dry_run:
        note("Dry run: nothing was changed.")
        raise click.exceptions.Exit(1 if refused else 0)
    confirm_count(f"{intent.capitalize()}", nodes, yes)
    for name in {value or "" for value in chosen.values()} or {""}:
        names = [node.name for node in nodes if chosen.get(node.name, "") == name]
        workflow.begin(at, names, intent, image=name or None, consent=consent)
    # Whoever walks to a machine wants to see here that it was the right one.
    if restart(at, nodes, power):
        watch = True
    if watch:
        watch_until_done(at, nodes)


def show_plan(at: "Context", node: "Node", image: str | None, consent: tuple[str, ...]) -> bool:
    """False when the node's disks, as they were last seen, do not allow it."""
    from headnode.workflows import planning

    click.echo(f"{node.name}:")
    if image is None:
        click.echo("  boots the ramdisk over the network and reports its hardware; nothing on its disks is changed")
        return True
    lines = list(planning.preview(at, node, image, consent))
    for line in lines:
        click.echo(f"  {line}")
    return not lines[0].startswith(planning.REFUSED)


def restart(at: "Context", nodes: "Sequence[Node]", power: bool) -> bool:
    """Through the BMC where there is one; true when somebody has to press a button now."""
    from headnode.nodeset import fold
    from headnode.workflows import power as workflow

    by_hand = [node.name for node in nodes if not power or node.bmc is None]
    driven = [node for node in nodes if node.name not in by_hand]
    trouble = workflow.boot_from_network(at, driven)
    for name, said in trouble.items():
        note(f"{name}: {said}")
    if by_hand or trouble:
        note(f"Power-cycle {fold([*by_hand, *trouble])} now: at the next network boot it begins.")
    return power and bool(by_hand or trouble)
