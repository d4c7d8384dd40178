"""Things that go wrong in a cluster, done for real and undone again."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from headnode.errors import HeadnodeError
from headnode.lab import stock
from headnode.lab.node import LabNode
from headnode.lab.rogue import Rogue, start_rogue
from headnode.lab.world import World
from images.store import IMAGE, Store

# As fast as a cable that negotiated 10 Mbit/s, which is how such things are found.
SLOW = "rate 10mbit burst 32kb latency 200ms"
LONG_AGO = "2001-09-09T01:46:40"
DAMAGE = 64


class Fault(StrEnum):
    NO_DHCP = "no-dhcp"
    SLOW_NET = "slow-net"
    BAD_DISK = "bad-disk"
    DEAD_BMC = "dead-bmc"
    FOREIGN_DHCP = "foreign-dhcp"
    CLOCK_SKEW = "clock-skew"
    IMAGE_CORRUPT = "image-corrupt"
    POWER_CUT = "power-cut"


MEANING = {
    Fault.NO_DHCP: "its DHCP requests are lost on the wire",
    Fault.SLOW_NET: "its link has 10 Mbit/s",
    Fault.BAD_DISK: "every write to its disks fails, from when it is next switched on",
    Fault.DEAD_BMC: "its BMC does not answer",
    Fault.FOREIGN_DHCP: "another DHCP server answers on the provision network, to everybody",
    Fault.CLOCK_SKEW: "its hardware clock says 2001, from when it is next switched on",
    Fault.IMAGE_CORRUPT: "the newest image is damaged on the head node, for everybody",
    Fault.POWER_CUT: "its power cord is pulled: machine and BMC are off until it is back",
}


@dataclass
class Faults:
    """What is wrong now, and how each is put right. One caller at a time."""

    world: World
    repairs: dict[tuple[str, Fault], Callable[[], None]] = field(default_factory=dict)

    def current(self, node: str) -> list[Fault]:
        return [fault for name, fault in self.repairs if name == node]

    def cause(self, node: str, fault: Fault) -> None:
        """Twice is once."""
        found = self.world.node(node)
        if (node, fault) not in self.repairs:
            self.repairs[node, fault] = CAUSES[fault](self.world, found)

    def clear(self, node: str) -> list[Fault]:
        """All of a node's; the last first, as they may build on each other."""
        self.world.node(node)
        cleared = self.current(node)
        for fault in reversed(cleared):
            self.repairs[node, fault]()
            del self.repairs[node, fault]
        return cleared


def no_dhcp(world: World, node: LabNode) -> Callable[[], None]:
    wiring, tap = world.provision.namespace, node.machine.taps[0]
    table = f"netdev lab-{node.bmc.name}"
    wiring.run(["nft", "add", "table", *table.split()])
    hook = f"{{ type filter hook ingress device {tap} priority 0; }}"
    wiring.run(["nft", f"add chain {table} nodhcp {hook}"])
    wiring.run(["nft", f"add rule {table} nodhcp udp dport 67 drop"])
    return lambda: ignore(wiring.run(["nft", "delete", "table", *table.split()]))


def slow_net(world: World, node: LabNode) -> Callable[[], None]:
    wiring, tap = world.provision.namespace, node.machine.taps[0]
    wiring.run(["tc", "qdisc", "add", "dev", tap, "root", "tbf", *SLOW.split()])
    return lambda: ignore(wiring.run(["tc", "qdisc", "del", "dev", tap, "root"]))


def bad_disk(world: World, node: LabNode) -> Callable[[], None]:
    machine = node.machine

    def wear(out: bool) -> None:
        disks = tuple(replace(disk, worn_out=out) for disk in machine.machine.disks)
        machine.machine = replace(machine.machine, disks=disks)

    wear(True)
    return lambda: wear(False)


def clock_skew(world: World, node: LabNode) -> Callable[[], None]:
    machine = node.machine
    machine.machine = replace(machine.machine, clock=LONG_AGO)

    def set_right() -> None:
        machine.machine = replace(machine.machine, clock="")

    return set_right


def dead_bmc(world: World, node: LabNode) -> Callable[[], None]:
    """Neither a port nor an address: nobody is there."""
    node.simulator.stop()
    world.bmcs.ip(f"addr del {node.bmc.address}/16 dev eth0")

    def revive() -> None:
        world.bmcs.add_address("eth0", f"{node.bmc.address}/16")
        node.simulator.start()
        node.simulator.wait_ready()

    return revive


def foreign_dhcp(world: World, node: LabNode) -> Callable[[], None]:
    # A namespace lives as long as the lab, so a second time it is there already: each gets a name of its own.
    rogues = sum(1 for name in world.lab.hosts if name.startswith("rogue"))
    rogue: Rogue = start_rogue(world.lab, world.provision, role=f"rogue{rogues + 1}")
    return lambda: rogue.remove(world.provision)


def image_corrupt(world: World, node: LabNode) -> Callable[[], None]:
    """A damaged copy takes the file's place: the original may be shared with the cache by a hard link."""
    image = Store(world.places.head.state / "images").find(stock.NAME).directory / IMAGE
    whole = image.with_name(f"{IMAGE}.whole")
    if whole.exists():
        raise HeadnodeError("the image is damaged already, for another node", hint="clear that one first")
    content = bytearray(image.read_bytes())
    middle = len(content) // 2
    content[middle : middle + DAMAGE] = bytes(byte ^ 0xFF for byte in content[middle : middle + DAMAGE])
    image.rename(whole)
    image.write_bytes(content)
    return lambda: ignore(whole.rename(image))


def power_cut(world: World, node: LabNode) -> Callable[[], None]:
    was_on = node.machine.is_on()
    node.machine.power_off()
    node.chassis.cord_pulled = True
    bmc_back = None if node.simulator.process is None else dead_bmc(world, node)

    def restore() -> None:
        if bmc_back is not None:
            bmc_back()
        node.chassis.cord_pulled = False
        if was_on:
            node.chassis.set_power(True)

    return restore


CAUSES: dict[Fault, Callable[[World, LabNode], Callable[[], None]]] = {
    Fault.NO_DHCP: no_dhcp,
    Fault.SLOW_NET: slow_net,
    Fault.BAD_DISK: bad_disk,
    Fault.DEAD_BMC: dead_bmc,
    Fault.FOREIGN_DHCP: foreign_dhcp,
    Fault.CLOCK_SKEW: clock_skew,
    Fault.IMAGE_CORRUPT: image_corrupt,
    Fault.POWER_CUT: power_cut,
}


def ignore(result: object) -> None:
    """For repairs that are one call."""


def undo_damage(state: Path) -> None:
    """A lab that was killed meanwhile left the damaged image in the whole one's place."""
    for whole in (state / "images").glob(f"*/{IMAGE}.whole"):
        with suppress(FileNotFoundError):
            whole.rename(whole.with_name(IMAGE))
