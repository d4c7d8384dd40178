"""From an empty disk to a node that is up, with a real head node, a real ramdisk and a real image."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headnode.lab.lab import lab
from headnode.lab.machine import Disk, Firmware, Machine
from headnode.lab.qemu import plugged_in
from headnode.model import Intent, State
from headnode.workflows import deploy, hostkeys
from images.ramdisk.build import assemble
from images.store import Store
from tests.images import cached
from tests.integration.boot import SITE, Head, eventually, head_node

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.timeout(1500),
    pytest.mark.program("ip", "dnsmasq", "nginx", "mmdebstrap", "zstd", "qemu-system-x86_64", "grub-mkstandalone"),
]
MAC = "52:54:00:aa:00:01"
LAYOUT = """
layouts:
  lab:
    disks:
      system: {min_size: 2G, serial: LABDISK1}
    volumes:
      - {name: esp, on: system, size: 64M, type: esp, mount: /boot/efi}
      - {name: bios, on: system, size: 1M, type: bios-boot}
      - {name: swap, on: system, size: 128M, type: swap}
      - {name: tmp, on: system, size: 256M, mount: /tmp, options: [nodev, nosuid]}
      - {name: root, on: system, size: rest, mount: /}
"""


@pytest.fixture(scope="module")
def node_image_directory() -> Path:
    return cached.node_image().directory


@pytest.fixture
def head(tmp_path: Path, node_image_directory: Path) -> Iterator[Head]:
    site = SITE.replace("gpu: {}", "gpu: {layout: lab, image: node}") + LAYOUT
    root = tmp_path / "root"
    root.mkdir()
    with lab(f"d{os.getpid():x}", logs=tmp_path) as made, head_node(made, root, site) as found:
        store = found.paths.state / "images"
        store.mkdir(parents=True)
        shutil.copytree(node_image_directory, store / node_image_directory.name, copy_function=os.link)
        assert Store(store).find("node").reference == "node@1"
        ramdisk = found.paths.state / "ramdisk/x86_64"
        ramdisk.mkdir(parents=True)
        assemble(cached.ramdisk_base(), ramdisk, cached.EPOCH)
        found.up()
        yield found


@pytest.mark.parametrize("firmware", [Firmware.BIOS, Firmware.UEFI])
def test_from_an_empty_disk_to_up(head: Head, tmp_path: Path, firmware: Firmware) -> None:
    begun = time.monotonic()
    phases: dict[str, float] = {}
    head.enroll("gpu01", mac=MAC)
    deploy.begin(head.context, ["gpu01"], Intent.DEPLOY, image="node@1")
    disk = Disk(tmp_path / "disk.img", 4 << 30, "LABDISK1")
    machine = Machine("gpu01", (MAC,), firmware, memory_mib=1536, cpus=2, disks=(disk,), serial="SN-0001")
    with plugged_in(head.lab, machine, [head.wire], tmp_path / "gpu01") as node:
        node.power_on()
        for state in (State.VERIFYING, State.UP):
            eventually(partial(is_one_of, head, (state, State.FAILED, State.UP)), 900)
            phases[state] = time.monotonic() - begun
            assert current(head) is not State.FAILED, reason(head)
        assert current(head) is State.UP
        known = hostkeys.host_keys(head.context, "gpu01")
        scanned = scan_host_keys(head)
        assert {key.public.split()[1] for key in known} <= scanned
        node.reset()
        node.wait_for("Headnode: gpu01 starts from its own disk", 240)
        node.wait_for("login:", 400)
    print(f"{firmware.value}: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in phases.items()))  # noqa: T201
    done = head.context.inventory.deployments([head.context.inventory.node("gpu01")])  # type: ignore[list-item]
    assert [(work.intent, work.result) for work in done] == [(Intent.DEPLOY, "done")]
    assert len(head.events("gpu01", "deployed")) == 1


def is_one_of(head: Head, wanted: tuple[State, ...]) -> bool:
    return current(head) in wanted


def current(head: Head) -> State:
    node = head.context.inventory.node("gpu01")
    assert node is not None
    return node.state


def reason(head: Head) -> str:
    node = head.context.inventory.node("gpu01")
    return f"{node and node.phase}: {node and node.reason}"


def scan_host_keys(head: Head) -> set[str]:
    argv = ["ip", "netns", "exec", head.nodes.name, "ssh-keyscan", "-T", "20", head.address("gpu01")]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return {line.split()[2] for line in said.splitlines() if not line.startswith("#")}
