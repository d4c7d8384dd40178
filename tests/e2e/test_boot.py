"""Emulated machines, enrolled a moment ago, boot from a real head node and say on their consoles what happens."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headnode.lab.lab import Lab, lab
from headnode.lab.machine import Disk, Firmware, Machine
from headnode.lab.qemu import plugged_in
from headnode.model import Intent
from headnode.run import run
from tests.integration.boot import SITE, Head, eventually, head_node

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.timeout(600),
    pytest.mark.program(
        "ip", "dnsmasq", "nginx", "setpriv", "qemu-system-x86_64", "grub-mkstandalone", "mkfs.vfat", "mcopy"
    ),
]
MAC = "52:54:00:aa:00:01"
HELLO = b"HELLO-FROM-THE-DISK\r\n\0"
# Sends what follows it to the serial port, byte by byte, and halts.
BOOT_SECTOR = bytes.fromhex("31c0 8ed8 be157c ac 84c0 7406 baf803 ee ebf5 f4 ebfd") + HELLO
StartHead = Callable[[str], Head]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Lab]:
    with lab(f"e{os.getpid():x}", logs=tmp_path) as made:
        yield made


@pytest.fixture
def start(running: Lab, tmp_path_factory: pytest.TempPathFactory) -> StartHead:
    def started(site: str = SITE) -> Head:
        head = running.enter(head_node(running, tmp_path_factory.mktemp("head"), site))
        head.up()
        return head

    return started


def boot_sector(path: Path) -> None:
    path.write_bytes(BOOT_SECTOR.ljust(510, b"\0") + b"\x55\xaa" + b"\0" * (1 << 20))


def disk_with_loader(path: Path, scratch: Path) -> None:
    """What an installed system has: a FAT file system with a boot loader at the place that firmware looks at."""
    config, loader = scratch / "grub.cfg", scratch / "BOOTX64.EFI"
    config.write_text("echo HELLO-FROM-THE-DISK\nsleep 600\n")
    run(
        ["grub-mkstandalone", "--format=x86_64-efi", "--install-modules=normal echo sleep", "--locales=", "--fonts=",
         "--themes=", f"--output={loader}", f"boot/grub/grub.cfg={config}"]
    )  # fmt: skip
    path.unlink()
    run(["mkfs.vfat", "-C", path, str(64 << 10)])
    run(["mmd", "-i", path, "::/EFI", "::/EFI/BOOT"])
    run(["mcopy", "-i", path, loader, "::/EFI/BOOT/BOOTX64.EFI"])


def test_a_bios_machine_gets_to_its_own_script_and_on_to_its_disk(
    running: Lab, start: StartHead, tmp_path: Path
) -> None:
    head = start(SITE)
    disk = Disk(tmp_path / "disk.img", 64 << 20, "LABDISK1")
    boot_sector(disk.path)
    machine = Machine("n1", (MAC,), memory_mib=256, disks=(disk,))
    with plugged_in(running, machine, [head.wire], tmp_path / "n1") as node:
        address = head.enroll("gpu01", mac=MAC)
        node.power_on()
        node.wait_for("Headnode: gpu01 starts from its own disk", 120)
        node.wait_for("HELLO-FROM-THE-DISK", 60)
        head.tell("gpu01", Intent.RESCUE)
        node.reset()
        node.wait_for("Headnode: rescue of gpu01", 120)
        node.wait_for("Headnode: gpu01 starts the ramdisk to rescue", 60)
        node.wait_for("Headnode: gpu01 could not load the ramdisk", 60)
    eventually(lambda: any(event.message == f"got {address}" for event in head.events("gpu01", "dhcp.ack")))
    agents = [str(event.data["agent"]) for event in head.events("gpu01", "http")]
    assert any(agent.startswith("iPXE") for agent in agents)


def test_a_uefi_machine_gets_to_its_own_script_and_on_to_its_disk(
    running: Lab, start: StartHead, tmp_path: Path
) -> None:
    head = start(SITE)
    disk = Disk(tmp_path / "disk.img", 64 << 20, "LABDISK1")
    machine = Machine("n1", (MAC,), Firmware.UEFI, memory_mib=512, disks=(disk,))
    with plugged_in(running, machine, [head.wire], tmp_path / "n1") as node:
        head.enroll("gpu01", mac=MAC)
        node.power_on()
        node.wait_for("Headnode: gpu01 starts from its own disk", 180)
        node.wait_for("Headnode: no boot loader was found on any disk", 60)
        node.power_off()
        disk_with_loader(disk.path, tmp_path)
        node.power_on()
        node.wait_for("Headnode: gpu01 starts from its own disk", 180)
        node.wait_for("Headnode: starting /EFI/BOOT/BOOTX64.EFI", 60)
        node.wait_for("HELLO-FROM-THE-DISK", 60)
    eventually(lambda: any("fetched ipxe.efi over TFTP" in event.message for event in head.events("gpu01", "tftp")))
    assert any("/grub/disk-x86_64.efi: 200" in event.message for event in head.events("gpu01", "http"))


@pytest.mark.slow
def test_secure_boot_goes_from_signed_shim_to_grub_to_our_script(
    running: Lab, start: StartHead, tmp_path: Path
) -> None:
    head = start(SITE.replace("boot: {", "boot: {uefi: shim, "))
    disk = Disk(tmp_path / "disk.img", 64 << 20, "LABDISK1")
    machine = Machine("n1", (MAC,), Firmware.SECURE_BOOT, memory_mib=512, disks=(disk,))
    with plugged_in(running, machine, [head.wire], tmp_path / "n1") as node:
        head.enroll("gpu01", mac=MAC)
        node.power_on()
        node.wait_for("Headnode: gpu01 starts from its own disk", 240)
        node.wait_for("Headnode: no disk to start from", 60)
        head.tell("gpu01", Intent.INSPECT)
        node.reset()
        node.wait_for("Headnode: gpu01 starts the ramdisk to inspect", 240)
        node.wait_for("Headnode: gpu01 could not load the ramdisk", 60)
