"""What 'deploy --dry-run' and 'inspect --dry-run' say, and that they change nothing."""

from pathlib import Path
from typing import Any

import pytest

from headnode.model import State
from headnode.workflows import deploy, enroll
from headnode.workflows.context import Context
from images.signing import signer
from images.store import Store
from tests.images.test_store import add
from tests.support import headnode, mac, row

DISK = {"name": "sda", "device": "/dev/sda", "size": 480 << 30, "type": "ssd", "serial": "S1", "holds": []}
FOREIGN = {"device": "/dev/sda1", "start": 1 << 20, "size": 1 << 30, "type": "ext4", "label": "payroll"}


@pytest.fixture
def cluster(context: Context, root: Path, tmp_path: Path) -> Context:
    """cpu01 to cpu03 with a ramdisk to start and an image to get; none has shown its disks."""
    rows = [row(name=f"cpu{number:02}", mac=mac(number), profile="cpu") for number in (1, 2, 3)]
    assert enroll.enroll(context, rows).problems == []
    store = Store(root / "var/lib/headnode/images")
    ramdisk = context.paths.state / "ramdisk/x86_64"
    ramdisk.mkdir(parents=True)
    (ramdisk / "initrd").touch()
    add(store, signer(root / "etc/headnode"), tmp_path, "cpu")
    return context


def shows(context: Context, name: str, *disks: dict[str, Any]) -> None:
    node = context.inventory.node(name)
    assert node is not None
    deploy.report_hardware(context, node, {"firmware": "bios", "disks": list(disks)})


def test_the_plan_has_serial_numbers_sizes_and_commands(cluster: Context, root: Path) -> None:
    shows(cluster, "cpu01", DISK)
    found = headnode(root, "deploy", "cpu01", "--dry-run")
    assert found.code == 0
    assert "  disk system: /dev/sda, serial S1, 480 GiB\n    1 esp: 256 MiB esp /boot/efi\n" in found.out
    assert "make ext4 for /: mkfs.ext4 " in found.out
    assert "install GRUB for BIOS on /dev/sda: grub-install" in found.out


def test_a_node_that_would_be_refused_is_not_hidden_among_others(cluster: Context, root: Path) -> None:
    shows(cluster, "cpu01", DISK)
    shows(cluster, "cpu02", {**DISK, "holds": [FOREIGN]})
    found = headnode(root, "deploy", "cpu[01-03]", "--dry-run")
    assert found.code == 1
    assert "refused: disk 'system' is sda (480 GiB, serial 'S1')" in found.out
    assert "label 'payroll'" in found.out
    assert "cpu03:\n  not inspected yet" in found.out
    agreed = headnode(root, "deploy", "cpu02", "--dry-run", "--erase", "S1")
    assert (agreed.code, "erases sda1 (ext4, label 'payroll')" in agreed.out) == (0, True)
    assert {node.state for node in cluster.inventory.nodes()} == {State.ENROLLED}


def test_inspecting_needs_no_image_and_says_what_it_does(cluster: Context, root: Path) -> None:
    found = headnode(root, "inspect", "cpu01", "--dry-run")
    assert found.code == 0
    assert found.out == (
        "cpu01:\n  boots the ramdisk over the network and reports its hardware; nothing on its disks is changed\n"
    )
