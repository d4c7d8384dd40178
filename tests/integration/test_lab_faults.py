"""Every fault of a lab does what it says, seen from the product or from the machine itself, and is undone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError, NotFound
from headnode.lab import faults as module
from headnode.lab import link, stock
from headnode.lab.faults import CAUSES, MEANING, Fault, Faults
from headnode.lab.machine import Firmware
from headnode.lab.process import wait_for
from headnode.lab.spec import Spec
from headnode.lab.world import World, world
from images.signing import signer
from images.store import IMAGE, Store
from pxe.probe import probe

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("ip", "dnsmasq", "nginx", "ipmi_sim", "qemu-system-x86_64", "nft", "tc"),
]
# A boot sector that writes its neighbour through the BIOS and says W (written) or F (failed), then, as raw bytes, the
# century and the year that the hardware clock shows, in BCD; then it halts.
GUEST = bytes.fromhex(
    "31c0 8ed8 8ec0 8ed0 bc007c bb007e b80103 b90200 ba8000 cd13 b057 7302 b046 baf803 ee"
    "b404 cd1a baf803 88e8 ee 88c8 ee b021 ee f4 ebfd"
)


@pytest.fixture(scope="module")
def made() -> Iterator[World]:
    name = f"f{os.getpid():x}"
    try:
        with world(Spec(name, (Firmware.BIOS,), images=False)) as running:
            running.headnode(*running.enrolment(running.spec.nodes[0]))
            yield running
    finally:
        link.down(name)


@pytest.fixture
def faults(made: World) -> Iterator[Faults]:
    """Whatever a test leaves wrong is put right for the next."""
    found = Faults(made)
    yield found
    found.clear("gpu01")
    made.node("gpu01").machine.power_off()


def boot_sector(made: World) -> bytes:
    """What the guest says from its disk."""
    machine = made.node("gpu01").machine
    disk = machine.machine.disks[0].path
    with disk.open("r+b") as file:
        file.write(GUEST.ljust(510, b"\0") + b"\x55\xaa" + bytes(512))
    console = machine.files.console
    before = console.stat().st_size if console.exists() else 0
    machine.power_on(network_first=False)
    assert wait_for(lambda: console.exists() and b"!" in said(console, before), 60), machine.console()[-500:]
    machine.power_off()
    return said(console, before)


def said(console: Path, before: int) -> bytes:
    """After SeaBIOS's own words, the last of which are still on their way when the guest begins."""
    return console.read_bytes()[before:].partition(b"Booting from Hard Disk")[2].translate(None, b".\r\n")


def power_status(made: World) -> str:
    return made.headnode("power", "status", "gpu01", check=False).stdout


def test_every_fault_can_be_caused_and_is_explained() -> None:
    assert set(CAUSES) == set(MEANING) == set(Fault)


def test_a_worn_out_disk_takes_no_writes(made: World, faults: Faults) -> None:
    faults.cause("gpu01", Fault.BAD_DISK)
    assert boot_sector(made).startswith(b"F")
    assert faults.clear("gpu01") == [Fault.BAD_DISK]
    assert boot_sector(made).startswith(b"W")


def test_a_skewed_clock_is_what_the_machine_reads(made: World, faults: Faults) -> None:
    faults.cause("gpu01", Fault.CLOCK_SKEW)
    assert boot_sector(made)[1:3] == b"\x20\x01"
    faults.clear("gpu01")
    assert boot_sector(made)[1:3] > b"\x20\x24"


def test_a_dead_bmc_does_not_answer(made: World, faults: Faults) -> None:
    assert power_status(made) == "gpu01: off\n"
    faults.cause("gpu01", Fault.DEAD_BMC)
    faults.cause("gpu01", Fault.DEAD_BMC)
    assert faults.current("gpu01") == [Fault.DEAD_BMC]
    assert "off" not in power_status(made)
    faults.clear("gpu01")
    assert wait_for(lambda: power_status(made) == "gpu01: off\n", 60)


def test_a_pulled_cord_takes_machine_and_bmc_and_gives_them_back(made: World, faults: Faults) -> None:
    node = made.node("gpu01")
    node.chassis.set_power(True)
    faults.cause("gpu01", Fault.POWER_CUT)
    assert not node.machine.is_on()
    node.chassis.set_power(True)
    assert not node.machine.is_on()
    assert node.simulator.process is None
    faults.clear("gpu01")
    assert node.machine.is_on()
    assert wait_for(lambda: power_status(made) == "gpu01: on\n", 60)


def test_a_foreign_server_answers_and_is_gone_again(made: World, faults: Faults) -> None:
    for _ in range(2):
        faults.cause("gpu01", Fault.FOREIGN_DHCP)
        with made.head.inside():
            assert [offer.server_id for offer in probe("eth0", 3.0, ours=[made.head.mac("eth0")])] == ["10.66.0.1"]
        faults.clear("gpu01")
    with made.head.inside():
        assert probe("eth0", 2.0, ours=[made.head.mac("eth0")]) == []


def test_lost_requests_leave_the_machine_without_an_address(made: World, faults: Faults) -> None:
    machine = made.node("gpu01").machine
    faults.cause("gpu01", Fault.NO_DHCP)
    machine.power_on()
    machine.wait_for("Configuring|DHCP", 60)
    assert not wait_for(lambda: "starts from its own disk" in machine.console(), 8)
    faults.clear("gpu01")
    machine.reset()
    machine.wait_for("Headnode: gpu01 starts from its own disk", 90)


def test_a_slow_link_is_slow_towards_the_node_only_while_it_is_wanted(made: World, faults: Faults) -> None:
    wiring, tap = made.provision.namespace, made.node("gpu01").machine.taps[0]
    faults.cause("gpu01", Fault.SLOW_NET)
    assert "tbf" in wiring.run(["tc", "qdisc", "show", "dev", tap]).stdout
    assert "rate 10Mbit" in wiring.run(["tc", "qdisc", "show", "dev", tap]).stdout
    faults.clear("gpu01")
    assert "tbf" not in wiring.run(["tc", "qdisc", "show", "dev", tap]).stdout


def test_a_damaged_image_is_noticed_and_made_whole(made: World, faults: Faults, tmp_path: Path) -> None:
    store = Store(made.places.head.state / "images")
    store.root.mkdir(parents=True, exist_ok=True)
    filled = store.root / "draft"
    filled.mkdir()
    (filled / IMAGE).write_bytes(os.urandom(4096))
    image = store.publish(stock.NAME, filled, {"unpacked_size": 1}, signer(made.places.head.config))
    shared = tmp_path / "shared"
    os.link(image.directory / IMAGE, shared)
    before = shared.read_bytes()
    assert made.headnode("image", "verify").stdout == "node@1: as it was built\n"
    faults.cause("gpu01", Fault.IMAGE_CORRUPT)
    assert made.headnode("image", "verify", check=False).returncode == 1
    assert shared.read_bytes() == before
    with pytest.raises(HeadnodeError, match="damaged already"):
        Faults(made).cause("gpu01", Fault.IMAGE_CORRUPT)
    # A lab that is killed now makes it whole at its next start.
    module.undo_damage(made.places.head.state)
    assert made.headnode("image", "verify").stdout == "node@1: as it was built\n"
    faults.repairs.clear()
    faults.cause("gpu01", Fault.IMAGE_CORRUPT)
    faults.clear("gpu01")
    assert made.headnode("image", "verify").stdout == "node@1: as it was built\n"


def test_nobody_breaks_a_node_that_is_not_there(faults: Faults) -> None:
    with pytest.raises(NotFound, match="gpu99"):
        faults.cause("gpu99", Fault.DEAD_BMC)
    with pytest.raises(NotFound, match="gpu99"):
        faults.clear("gpu99")
