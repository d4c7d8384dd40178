"""headnode lab: up, status, deploy, shell, console, fault, reset, down."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import confirm, emit, note, output_option, yes_option
from headnode.cli.labtold import tell, web_page
from headnode.errors import InvalidField

if TYPE_CHECKING:
    pass

FAULTS = (
    "no-dhcp", "slow-net", "bad-disk", "dead-bmc", "foreign-dhcp", "clock-skew", "image-corrupt", "power-cut", "none",
)  # fmt: skip


def name_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--name", default="lab", show_default=True, help="Which lab; several run side by side.")(
        command
    )


@click.group()
def lab() -> None:
    """A whole cluster on this machine: emulated nodes, real everything else.

    A head node, emulated machines with a BMC each, and the networks between them, in network namespaces and directories
    of their own: nothing else on this machine is changed, and 'headnode lab down' removes all of it.

    \b
    Examples:
      headnode lab up --deploy
      headnode lab status
      headnode lab shell headnode nodes
      headnode lab down --yes
    """


@lab.command()
@name_option
@click.option("--nodes", type=click.IntRange(1, 64), default=2, show_default=True, help="How many machines.")
@click.option("--uefi", is_flag=True, help="With UEFI firmware instead of BIOS.")
@click.option("--memory", default="1536M", show_default=True, help="Memory of each machine, such as 2G.")
@click.option("--disks", type=click.IntRange(1, 2), default=1, show_default=True, help="Disks of each machine.")
@click.option("--port", type=click.IntRange(1, 65_535), default=8080, show_default=True,
              help="Port for the web page on this machine's loopback address, or the next free one.")  # fmt: skip
@click.option("--no-images", is_flag=True, help="Without image and ramdisk: quick, but nothing can be deployed.")
@click.option("--deploy", "deploying", is_flag=True, help="Then enrol and install the nodes, as 'lab deploy' does.")
@click.option("--since", type=float, hidden=True, help="When 'make lab' began to install packages.")
def up(name: str, nodes: int, uefi: bool, memory: str, disks: int, port: int, no_images: bool, deploying: bool,
       since: float | None) -> None:  # fmt: skip
    """Bring a lab up, or what is missing of it.

    The first time, the nodes' image and ramdisk are built, which takes minutes; they are kept for every lab after. The
    machines are in their rack, cabled and switched off: 'headnode lab deploy' enrols and installs them. Interrupted, it
    goes on where it was when it is run again.

    \b
    Examples:
      headnode lab up
      headnode lab up --deploy
      headnode lab up --nodes 4 --uefi --memory 2G
      headnode lab up --name second
    """
    from headnode.cli import labwork
    from headnode.lab import world
    from headnode.lab.machine import Firmware
    from headnode.lab.spec import Spec

    world.is_root()
    firmware = Firmware.UEFI if uefi else Firmware.BIOS
    spec = Spec(name, (firmware,) * nodes, mebibytes(memory), disks=disks, port=port, images=not no_images)
    plan = [*(("ramdisk", "image") if spec.images else ()), "boot", *(("deploy", "verify") if deploying else ())]
    phases = labwork.Phases(timings(), nodes, plan, since)
    if spec.images:
        labwork.provide_stock(phases)
    labwork.bring_up(phases, spec)
    if deploying:
        labwork.deploy_all(phases, spec)
    note(phases.summary())
    tell(spec, installed=deploying)


@lab.command()
@name_option
def deploy(name: str) -> None:
    """Enrol and install every node of a lab that is not up.

    With the product's own commands, which are shown. Without KVM the nodes follow one another, because emulated ones
    share this machine's processors. Interrupted, the work goes on, and running it again watches it.

    \b
    Examples:
      headnode lab deploy
      headnode lab deploy --name second
    """
    from headnode.cli import labwork
    from headnode.lab import link
    from headnode.lab.spec import Spec

    spec = Spec.read(link.existing(name).spec)
    link.order(name, "status")
    phases = labwork.Phases(timings(), len(spec.firmware), ("deploy", "verify"))
    labwork.deploy_all(phases, spec)
    note(phases.summary())
    tell(spec, installed=True)


def timings() -> Path:
    from headnode.lab import stock

    return stock.CACHE / "timings.json"


def mebibytes(text: str) -> int:
    from headnode.sizes import MIB, to_bytes

    if not re.fullmatch(r"[1-9][0-9]*(\.[0-9]+)?[MG]", text):
        raise InvalidField("memory", text, "use a number and M or G, such as 1536M or 2G")
    return to_bytes(text) // MIB


@lab.command()
@name_option
@output_option()
def status(name: str, output: str) -> None:
    """Show what runs in a lab.

    \b
    Examples:
      headnode lab status
      headnode lab status --name second -o json
    """
    from headnode.lab import link
    from headnode.lab.spec import Spec

    spec = Spec.read(link.existing(name).spec)
    found = link.order(name, "status")
    known = {row["name"]: row for row in found.get("nodes", [])}
    rows = [
        {
            "name": node.name,
            "firmware": node.firmware.value,
            "power": "on" if known.get(node.name, {}).get("power") else "off",
            "mac": node.mac,
            "bmc": node.bmc,
            "faults": known.get(node.name, {}).get("faults", []),
        }
        for node in spec.nodes
    ]
    emit(rows, output, ["name", "firmware", "power", "mac", "bmc", "faults"])
    if output in ("table", "wide"):
        services = "running" if found.get("serving") else "not running"
        note(
            f"Head node's services: {services}. The office wire is {'silent' if found.get('silent') else 'NOT silent'}."
        )
        if page := web_page(name):
            note(f"Web page: {page}")


@lab.command(context_settings={"ignore_unknown_options": True})
@name_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(name: str, command: tuple[str, ...]) -> None:
    """Open a shell on the head node of a lab, or run a command there.

    It is in the head node's network; 'headnode' there is the lab's, and 'ssh root@ADDRESS' opens the nodes.

    \b
    Examples:
      headnode lab shell
      headnode lab shell headnode nodes
      headnode lab shell headnode power status gpu01
      headnode lab shell ssh root@10.20.1.1 uptime
    """
    import os

    from headnode import run
    from headnode.lab import link
    from headnode.lab.net import Namespace, namespace_name

    places = link.existing(name)
    link.order(name, "status")
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    argv = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    if argv[0] == "ssh":
        options = ("UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR")
        argv[1:1] = ["-i", str(places.ssh_key), *(word for option in options for word in ("-o", option))]
    within = Namespace(namespace_name(name, "head")).argv(["env", f"PATH={path}", *argv])
    run.become(within, env={"HEADNODE_ROOT": str(places.head.root)})


@lab.command()
@name_option
@click.argument("node")
@click.option("--all", "everything", is_flag=True, help="From the beginning, not only the end.")
def console(name: str, node: str, everything: bool) -> None:
    """Sit at the serial console of a machine.

    This is the machine's own port, which also works before it is enrolled; 'headnode console' goes through its BMC. At
    the beginning of a line, ~. leaves.

    \b
    Examples:
      headnode lab console gpu01
      headnode lab console gpu01 --all > boot.log
    """
    from headnode.cli.labconsole import sit
    from headnode.lab import link
    from headnode.lab.machine import MachineFiles

    places = link.existing(name)
    link.known_node(name, node)
    sit(MachineFiles(places.node(node), places.runtime / node), everything=everything)


@lab.command()
@name_option
@click.argument("node")
@click.argument("fault", type=click.Choice(FAULTS), metavar="FAULT")
def fault(name: str, node: str, fault: str) -> None:
    """Make something go wrong with a node; 'none' puts all of it right.

    \b
      no-dhcp        its DHCP requests are lost on the wire
      slow-net       its link has 10 Mbit/s
      bad-disk       every write to its disks fails, from when it is next switched on
      dead-bmc       its BMC does not answer
      foreign-dhcp   another DHCP server answers on the provision network, to everybody
      clock-skew     its hardware clock says 2001, from when it is next switched on
      image-corrupt  the newest image is damaged on the head node, for everybody
      power-cut      its power cord is pulled: machine and BMC are off until it is back

    \b
    Examples:
      headnode lab fault gpu02 dead-bmc
      headnode lab fault gpu02 none
    """
    from headnode.lab import link

    if fault == "none":
        cleared = link.order(name, "clear", node=node)["cleared"]
        note(f"{node}: put right: {', '.join(cleared)}." if cleared else f"{node}: nothing was wrong.")
    else:
        note(f"{node}: {link.order(name, 'fault', node=node, fault=fault)['meaning']}.")


@lab.command()
@name_option
@yes_option
def reset(name: str, yes: bool) -> None:
    """Make a lab new: empty disks, nothing enrolled, no faults.

    \b
    Examples:
      headnode lab reset --yes
    """
    from headnode.cli.images import progress_lines
    from headnode.lab import link
    from headnode.lab.spec import Spec

    spec = Spec.read(link.existing(name).spec)
    confirm(f"Erase the disks and the inventory of the lab '{name}'?", yes)
    link.down(name)
    with progress_lines() as progress:
        link.up(spec, progress)
    tell(spec)


@lab.command()
@name_option
@click.option("--purge", is_flag=True, help="Also the image and ramdisk that are kept for the next lab.")
@yes_option
def down(name: str, purge: bool, yes: bool) -> None:
    """Remove a lab: its machines, its disks, its networks, all of it.

    Also after a crash or a restart of this machine. Only the built image and ramdisk stay, for the next time.

    \b
    Examples:
      headnode lab down
      headnode lab down --name second --yes
      headnode lab down --purge --yes
    """
    from headnode.lab import link, stock

    if sys.stdin.isatty():
        confirm(f"Remove the lab '{name}' and its machines' disks?", yes)
    found = link.down(name)
    if purge:
        shutil.rmtree(stock.CACHE, ignore_errors=True)
    note(f"The lab '{name}' is gone." if found else f"There is no lab '{name}'; nothing was changed.")
