"""From an empty disk to a node that is up, with a real head node, a real ramdisk and a real image.

One machine shows many things here, because each start of one takes a minute of emulation.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headnode.lab.machine import Disk, Firmware
from headnode.lab.qemu import RunningMachine
from headnode.model import State
from headnode.run import run
from images.agent import efi
from tests.e2e.deployment import NAME, SCRATCH, SYSTEM, Rack, machine, rack, slow_wire

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.timeout(1500),
    pytest.mark.program(
        "ip", "dnsmasq", "nginx", "mmdebstrap", "zstd", "qemu-system-x86_64", "grub-mkstandalone", "ssh", "mkfs.ext4"
    ),
]
FROM_DISK = f"Headnode: {NAME} starts from its own disk"
DISKS_OWN_MENU = f"{NAME}, single user|Linux version"
MOUNTS = {"/": "ext4", "/tmp": "ext4", "/boot/efi": "vfat"}
# What the node is asked about itself, in this order.
QUESTIONS = (
    "hostname --fqdn",
    "lsblk --json --output NAME,SERIAL,PARTLABEL,FSTYPE,MOUNTPOINTS",
    "findmnt --json --real",
    "ip -4 -o addr show scope global",
    "swapon --noheadings --show=NAME",
    "cat /etc/ssh/ssh_known_hosts",
)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Rack]:
    with rack(tmp_path) as made:
        yield made


def test_bios_the_right_disk_and_no_other_gets_a_whole_image_or_a_reason(at: Rack, tmp_path: Path) -> None:
    other = Disk(tmp_path / "other.img", 64 << 20, "BYSTANDER")
    scratch = Disk(tmp_path / "scratch.img", 512 << 20, SCRATCH)
    with machine(at, tmp_path, Firmware.BIOS, (other, scratch)) as node:
        other.path.write_bytes(b"somebody's data " * (other.size // 16))
        run(["mkfs.ext4", "-q", "-F", "-L", "payroll", scratch.path])
        before = {disk.path: digest(disk.path) for disk in (other, scratch)}
        at.enroll()
        at.head.set(NAME, layout="two-disks")
        refused_for_what_a_disk_holds(at, node)
        assert {path: digest(path) for path in before} == before
        assert node.machine.disks[0].path.stat().st_blocks == 0, "not one block of the empty disk was written"
        broken_images_are_told_apart(at, node)
        node.power_off()

        # Now the disks have each other's names, and the firmware's first two are those that nothing is started from:
        # one without a boot sector, and one that the plan partitions.
        order = {other.serial: 0, SCRATCH: 1, SYSTEM: 2}
        disks = (other, scratch, node.machine.disks[0])
        node.machine = replace(
            node.machine, disks=tuple(replace(disk, boot_order=order[disk.serial]) for disk in disks)
        )
        at.begin()
        switch_on(at, node)
        with slow_wire(at, node):
            at.until_streaming(10)
            at.restart()
        goes_up(at)
        assert digest(other.path) == before[other.path]
        assert at.head.context.inventory.deployed_disks(at.node) == {"system": SYSTEM, "scratch": SCRATCH}
        inside(at, {**MOUNTS, "/scratch": "xfs"}, {SYSTEM: "vdc", SCRATCH: "vdb"})
        for _ in range(4):
            starts_from_disk(node)
    print(f"BIOS: {at.phases()}")  # noqa: T201
    only_once(at, failed=4)


def test_uefi_a_power_cut_in_the_middle_is_made_good_by_the_next_start(at: Rack, tmp_path: Path) -> None:
    with machine(at, tmp_path, Firmware.UEFI) as node:
        at.enroll()
        at.begin()
        switch_on(at, node)
        with slow_wire(at, node):
            at.until_streaming(15)
            node.power_off()
        assert (at.node.state, at.work.finished) == (State.DEPLOYING, None)
        switch_on(at, node)
        goes_up(at)
        inside(at, MOUNTS, {SYSTEM: "vda"})
        assert first_in_boot_order(at).startswith("UEFI PXE")
        for _ in range(4):
            starts_from_disk(node)
    print(f"UEFI: {at.phases()}")  # noqa: T201
    only_once(at, failed=0)


def refused_for_what_a_disk_holds(at: Rack, node: RunningMachine) -> None:
    at.begin()
    node.power_on()
    reason = at.failure()
    assert f"serial '{SCRATCH}'" in reason
    assert "label 'payroll'" in reason
    assert f"--erase {SCRATCH}" in reason
    node.wait_for("the ramdisk's shell", 60)


def broken_images_are_told_apart(at: Rack, node: RunningMachine) -> None:
    """Without starting the machine anew: the agent is run again from the shell that a failure leaves."""
    size = at.image.stat().st_size
    with image_of(at, lambda content: content[: size // 2]):
        reason = again(at, node)
        assert f"{size // 2} bytes on the head node, and the plan says {size}" in reason
    # In its first bytes, where zstd notices too: what cannot be unpacked is only hashed, which is quick.
    with image_of(at, lambda content: content[:2] + bytes([content[2] ^ 1]) + content[3:]):
        reason = again(at, node)
        assert "is damaged: its SHA-256 is" in reason
    with image_of(at, lambda content: content):
        reason = while_it_goes_away(at, node)
        assert "is not on the head node any more, after" in reason


def again(at: Rack, node: RunningMachine) -> str:
    at.begin(consent=[SCRATCH])
    node.type("headnode-agent\r")
    return told(at, node)


def while_it_goes_away(at: Rack, node: RunningMachine) -> str:
    at.begin(consent=[SCRATCH])
    with slow_wire(at, node):
        node.type("headnode-agent\r")
        at.until_streaming(1)
        at.image.unlink()
        # Whoever reads it already goes on reading it; a broken connection cannot be taken up again.
        at.head.kill("nginx")
        return told(at, node)


def told(at: Rack, node: RunningMachine) -> str:
    reason = at.failure()
    node.wait_for("the agent ended with code|[#$] ", 60)
    return reason


@contextmanager
def image_of(at: Rack, change: Callable[[bytes], bytes]) -> Iterator[None]:
    """Another file in the image's place; the true one is shared with other runs, and is never written."""
    kept = at.image.with_name("kept")
    at.image.rename(kept)
    at.image.write_bytes(change(kept.read_bytes()))
    try:
        yield
    finally:
        kept.replace(at.image)


def switch_on(at: Rack, node: RunningMachine) -> None:
    at.mark("power on")
    claims = len(at.head.events(NAME, "agent.claimed"))
    node.power_on()
    node.wait_for(f"Headnode: {NAME} starts the ramdisk to deploy", 240)
    at.mark("network boot")
    at.until(lambda: len(at.head.events(NAME, "agent.claimed")) > claims)
    at.mark("ramdisk")


def goes_up(at: Rack) -> None:
    at.until_state(State.VERIFYING)
    at.mark("deployed")
    at.until_state(State.UP)
    at.mark("up")


def inside(at: Rack, mounts: dict[str, str], disks: dict[str, str]) -> None:
    """What the node itself says, over SSH, to somebody who trusts the published known_hosts alone."""
    said = at.ssh(" && echo =+= && ".join(QUESTIONS)).stdout.split("=+=\n")
    name, blocks, found, addresses, swap, known = said
    assert name.strip() == f"{NAME}.demo.lan"
    assert f"inet {at.head.address(NAME)}/16" in addresses
    assert known.splitlines()[1:] == (at.head.paths.published / "ssh/known_hosts").read_text().splitlines()[1:]
    assert swap.startswith("/dev/")
    tree = {disk["serial"]: disk for disk in json.loads(blocks)["blockdevices"] if disk["serial"]}
    assert {serial: tree[serial]["name"] for serial in disks} == disks
    labels = [part["partlabel"] for part in tree[SYSTEM]["children"]]
    assert labels == ["esp", "bios", "swap", "tmp", "root"]
    mounted = {mount["target"]: mount for mount in flat(json.loads(found)["filesystems"])}
    assert {path: mounted[path]["fstype"] for path in mounts} == mounts
    assert {"nodev", "nosuid"} <= set(mounted["/tmp"]["options"].split(","))


def first_in_boot_order(at: Rack) -> str:
    """What the firmware starts first, in its own words."""
    variables = "/sys/firmware/efi/efivars"
    at.ssh(f"modprobe -q efivarfs; mountpoint -q {variables} || mount -t efivarfs efivarfs {variables}")
    found = efi.parse(at.ssh("efibootmgr").stdout)
    return dict(found.entries)[found.order[0]]


def flat(mounts: list[dict[str, object]]) -> Iterator[dict[str, str]]:
    for mount in mounts:
        children = mount.pop("children", [])
        yield {key: str(value) for key, value in mount.items()}
        assert isinstance(children, list)
        yield from flat(children)


def starts_from_disk(node: RunningMachine) -> None:
    """As far as the boot menu, or the kernel, that only the disk has: what comes after has been seen once."""
    node.reset()
    node.wait_for(FROM_DISK, 240)
    node.wait_for(DISKS_OWN_MENU, 120)


def only_once(at: Rack, failed: int) -> None:
    results = [work.result for work in at.head.context.inventory.deployments([at.node])]
    assert results == ["done", *["failed"] * failed]
    assert len(at.head.events(NAME, "deployed")) == 1
    assert at.node.state is State.UP


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
