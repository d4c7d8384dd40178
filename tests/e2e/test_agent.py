"""The ramdisk and its agent on emulated machines, from an empty disk to a system that boots from it."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import templates
from headnode.lab.lab import Lab
from headnode.lab.machine import Disk, Firmware, Machine
from headnode.lab.net import Namespace, namespace_name
from headnode.lab.qemu import RunningMachine, plugged_in
from headnode.lab.servers import start_dnsmasq
from headnode.paths import Paths
from headnode.run import Completed, run
from images.ramdisk.build import assemble
from images.store import IMAGE, Image
from pxe.assets import make_disk_starter
from tests.e2e import plans
from tests.images import cached
from tests.images.fakehead import FakeHead, serve

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.program("ip", "dnsmasq", "mmdebstrap", "zstd", "qemu-system-x86_64"),
    pytest.mark.timeout(900),
]
HEAD, ADDRESS, MAC = "10.20.0.1", "10.20.1.1", "52:54:00:aa:00:01"
IPXE = Path("/usr/lib/ipxe")
INTENTS = ("deploy", "inspect", "rescue", "disk")
DHCP = [
    "interface=eth0", "dhcp-range=10.20.0.0,static,255.255.0.0,1h", f"dhcp-host={MAC},{ADDRESS}",
    "dhcp-userclass=set:ipxe,iPXE", f"dhcp-boot=tag:ipxe,http://{HEAD}/boot",
    "dhcp-match=set:efi,option:client-arch,7", "dhcp-boot=tag:!ipxe,tag:efi,snponly.efi",
]  # fmt: skip


def scripts() -> dict[str, str]:
    """The product's own boot scripts."""
    values = {
        "made_from": "a test", "node": SimpleNamespace(name="n1"), "head": HEAD,
        "settings": SimpleNamespace(console="ttyS0,115200", architecture="x86_64"),
    }  # fmt: skip
    return {intent: templates.render(f"boot/{intent}.ipxe.j2", **values) for intent in INTENTS}


def ramdisk(place: Path) -> dict[str, Path]:
    place.mkdir()
    assemble(cached.ramdisk_base(), place, cached.EPOCH)
    return {f"/ramdisk/x86_64/{name}": place / name for name in ("vmlinuz", "initrd")}


@contextmanager
def started(lab: Lab, tmp_path: Path, head: FakeHead, firmware: Firmware) -> Iterator[RunningMachine]:
    """A machine with an empty disk, switched on, PXE first."""
    wire, host = lab.switch(), lab.host("head")
    wire.attach(host, "eth0", address=f"{HEAD}/16")
    tftp = tmp_path / "tftp"
    tftp.mkdir()
    shutil.copy(IPXE / "snponly.efi", tftp)
    start_dnsmasq(lab, host, "dnsmasq", [*DHCP, "enable-tftp", f"tftp-root={tftp}"])
    with host.inside():
        server = serve(head, HEAD, 80)
    disk = Disk(tmp_path / "disk.img", 3 << 30, "LABDISK1")
    machine = Machine("n1", (MAC,), firmware, memory_mib=1536, cpus=2, disks=(disk,), serial="SN-0001")
    try:
        with plugged_in(lab, machine, [wire], tmp_path / "n1") as node:
            node.power_on()
            yield node
    finally:
        server.shutdown()
        server.server_close()


# Slow, because tests/e2e/test_deploy.py goes the same way with a real head node.
@pytest.mark.slow
@pytest.mark.parametrize("firmware", [Firmware.BIOS, Firmware.UEFI])
def test_from_an_empty_disk_to_a_system_that_boots_from_it(
    running_lab: Lab, tmp_path: Path, firmware: Firmware
) -> None:
    image = cached.node_image()
    head = FakeHead(scripts=scripts(), files=ramdisk(tmp_path / "ramdisk"), plan=lambda facts: plans.plan(facts, image))
    head.files[image.url] = image.directory / IMAGE
    head.overlay = plans.overlay("n1", image)
    # A connection that breaks in the middle of the image is taken up again where it broke.
    head.trouble[image.url] = [image.size // 3]
    if firmware is Firmware.UEFI:
        paths = Paths(tmp_path / "root")
        assert make_disk_starter(paths) == []
        head.files["/grub/disk-x86_64.efi"] = paths.grub / "disk-x86_64.efi"
    begun = time.monotonic()
    with started(running_lab, tmp_path, head, firmware) as node:
        node.wait_for("headnode: ramdisk started", 240)
        phases = {"ramdisk": time.monotonic() - begun}
        node.wait_for("this is n1, told to deploy", 120)
        phases["claimed"] = time.monotonic() - begun
        node.wait_for(r"headnode: (reboot|.* failed: .*)", 400)
        assert head.failed is None
        phases["deployed"] = time.monotonic() - begun
        node.wait_for(r"HEADNODE-BOOTED n1 /dev/vda3 ext4 boot=1\b", 300)
        phases["booted"] = time.monotonic() - begun
    print(f"{firmware.value}: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in phases.items()))  # noqa: T201
    assert (head.claims, head.done) == (1, 1)
    assert head.requests.count(f"GET {image.url}") == 2
    assert head.facts is not None
    assert head.facts["firmware"] == firmware.value
    assert head.facts["serial"] == "SN-0001"
    assert [disk["serial"] for disk in head.facts["disks"]] == ["LABDISK1"]
    streamed = [event for event in head.events if event["kind"] == "progress"]
    assert streamed[-1]["bytes"] == image.size
    assert "sfdisk" in head.log


# Slow, because tests/e2e/test_deploy.py sees a refused disk untouched and the shell that is left, and the check itself
# is tested in tests/images/agent/test_facts.py.
@pytest.mark.slow
def test_another_disk_than_the_planned_one_is_not_written_and_a_shell_is_left(running_lab: Lab, tmp_path: Path) -> None:
    never_read = Image("none", 1, tmp_path, {"files": {IMAGE: {"sha256": "0" * 64, "size": 1}}, "unpacked_size": 1})

    def plan(facts: dict[str, Any]) -> dict[str, Any]:
        made = plans.plan(facts, never_read)
        made["disks"][0]["serial"] = "ANOTHER"
        return made

    head = FakeHead(scripts=scripts(), files=ramdisk(tmp_path / "ramdisk"), plan=plan)
    with started(running_lab, tmp_path, head, Firmware.BIOS) as node:
        node.wait_for("failed: /dev/vda is not the disk the plan was made for", 400)
        shell_answers(node)
    assert head.failed is not None
    assert head.failed["step"] == "look at the disks again"
    assert "its serial number is LABDISK1, and ANOTHER was expected; nothing was written" in head.failed["reason"]
    assert head.done == 0
    assert (tmp_path / "disk.img").stat().st_blocks == 0, "not one block was written"


@pytest.mark.slow
def test_a_damaged_image_fails_with_its_reason_and_leaves_a_shell(running_lab: Lab, tmp_path: Path) -> None:
    image = cached.node_image()
    content = bytearray((image.directory / IMAGE).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / IMAGE).write_bytes(content)
    head = FakeHead(scripts=scripts(), files=ramdisk(tmp_path / "ramdisk"), plan=lambda facts: plans.plan(facts, image))
    head.files[image.url] = tmp_path / IMAGE
    with started(running_lab, tmp_path, head, Firmware.BIOS) as node:
        node.wait_for("stream the image failed: the image .* is damaged", 400)
        shell_answers(node)
    assert head.failed is not None
    assert head.failed["step"] == "stream the image"
    assert "SHA-256" in head.failed["reason"]
    assert "sfdisk" in head.failed["log"]
    assert head.done == 0


@pytest.mark.slow
@pytest.mark.program("ssh", "ssh-keygen")
def test_a_rescued_machine_lets_the_right_key_in_and_shows_the_known_host_key(running_lab: Lab, tmp_path: Path) -> None:
    for name in ("person", "host", "stranger"):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name])
    head = FakeHead(intent="rescue", scripts=scripts(), files=ramdisk(tmp_path / "ramdisk"))
    head.overlay = [
        plans.file("/root/.ssh/authorized_keys", (tmp_path / "person.pub").read_text(), "0600"),
        plans.file("/etc/ssh/ssh_host_ed25519_key", (tmp_path / "host").read_text(), "0600"),
        plans.file("/etc/ssh/ssh_host_ed25519_key.pub", (tmp_path / "host.pub").read_text()),
        plans.file("/etc/hostname", "not for the ramdisk"),
    ]
    (tmp_path / "known_hosts").write_text(f"{ADDRESS} {(tmp_path / 'host.pub').read_text()}")
    with started(running_lab, tmp_path, head, Firmware.BIOS) as node:
        node.wait_for("ready: log in as root over SSH", 400)
        said = ssh(running_lab, tmp_path, "person", "hostname; lsblk -no SERIAL /dev/vda; python3 --version")
        assert (said.returncode, said.stdout.split()[:2]) == (0, ["ramdisk", "LABDISK1"])
        assert ssh(running_lab, tmp_path, "stranger", "true").returncode == 255
        shell_answers(node)
    assert head.done == 1


def ssh(lab: Lab, keys: Path, key: str, command: str) -> Completed:
    options = ("BatchMode=yes", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={keys}/known_hosts",
               "HostKeyAlgorithms=ssh-ed25519", "IdentitiesOnly=yes", "ConnectTimeout=60")  # fmt: skip
    words = [word for option in options for word in ("-o", option)]
    host = Namespace(namespace_name(lab.name, "head"))
    argv: list[str | Path] = ["ssh", "-F", "none", *words, "-i", keys / key, f"root@{ADDRESS}", command]
    return host.run(argv, check=False, timeout=120)


def shell_answers(node: RunningMachine) -> None:
    node.wait_for("the ramdisk's shell", 60)
    node.wait_for(r"[#$] ", 60)
    node.type("echo SHELL-$((6 * 7))\r")
    node.wait_for("SHELL-42", 60)
