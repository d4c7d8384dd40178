"""Debian's own installer under our head node: it boots, takes its answers and reaches the mirror without a question."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.lab.lab import lab
from headnode.lab.machine import Disk, Machine
from headnode.lab.qemu import RunningMachine, plugged_in
from headnode.model import State
from headnode.run import run
from images.layouts import resolve
from images.owner import Owner
from tests.e2e.mirror import mirror
from tests.images.aptworld import installer
from tests.images.support import shipped
from tests.integration.boot import HEAD, SITE, Head, eventually, head_node
from tests.support import process

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.timeout(7200),
    pytest.mark.program("ip", "dnsmasq", "nginx", "qemu-system-x86_64", "sfdisk", "apt-get", "grub-mkrescue"),
]
MAC = "52:54:00:aa:00:01"
SIZE = 12 << 30
FACTS = {
    "firmware": "bios", "memory_bytes": 2 << 30, "gpus": [], "nics": [],
    "disks": [{"name": "vda", "device": "/dev/vda", "size": SIZE, "type": "hdd", "serial": "LABDISK1", "sector": 512,
               "holds": []}],
}  # fmt: skip
# What an installation needs beyond its first steps; an archive without one of them cannot finish any.
LAST_PARTS = ("grub-installer", "partman-partitioning", "finish-install")


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    layouts = f"layouts:\n  single-disk: {json.dumps(shipped().layouts['single-disk'].model_dump(mode='json'))}\n"
    profile = "gpu: {os: debian, release: '12', method: preseed, image: debian-12, layout: single-disk}"
    site = SITE.replace("gpu: {}", profile) + f"packages: {{proxy: 'http://{HEAD}:3142'}}\n" + layouts
    root = tmp_path / "root"
    root.mkdir()
    with lab(f"i{os.getpid():x}", logs=tmp_path) as made, head_node(made, root, site) as found:
        yield found


def begin(head: Head) -> None:
    """As a person would: import, enrol, deploy. Inspecting is another test's."""
    # From outside the lab's network, where the archive is.
    told = process(head.root, "image", "import", "--debian", "12")
    assert told.stdout == b"debian-12@1\n", told.stderr
    head.enroll("gpu01", mac=MAC)
    with head.context.inventory.change("test", "test") as change:
        change.remember_hardware(change.nodes(["gpu01"])[0], FACTS)
    head.headnode("deploy", "gpu01", "--no-power", "--yes")


def test_debians_installer_takes_its_answers_and_reaches_the_mirror(head: Head, tmp_path: Path) -> None:
    begun = time.monotonic()
    begin(head)
    head.up()
    disk = Disk(tmp_path / "disk.img", SIZE, "LABDISK1")
    machine = Machine("gpu01", (MAC,), memory_mib=2048, cpus=2, disks=(disk,), serial="SN-0001")
    with (
        mirror(head.host, HEAD) as proxy,
        plugged_in(head.lab, machine, [head.wire], tmp_path / "gpu01") as node,
    ):
        node.power_on()
        node.wait_for("Headnode: gpu01 starts the installer of debian-12@1", 240)
        eventually(lambda: any("has its answers" in event.message for event in head.events("gpu01", "agent")), 900)
        answered = time.monotonic() - begun
        eventually(lambda: any(path.endswith("/bookworm/Release") for path in proxy.asked), 900)
        eventually(lambda: any("debian-installer" in path for path in proxy.asked), 900)
        print(f"answers after {answered:.0f} s, mirror after {time.monotonic() - begun:.0f} s")  # noqa: T201
        assert "Prompt:" not in node.console(), "it asked a question"
        logged = (head.paths.logs / "nginx-access.log").read_text()
        assert "/node/v1/installer" in logged
        assert "/node/v1/seed/" not in logged, "the deployment's secret is in no log"
        if archive_is_whole(tmp_path / "parts"):
            finish(head, node, disk)


def archive_is_whole(place: Path) -> bool:
    """Whether the parts that end an installation are really there, and not only listed."""
    apt = installer(place / "apt")
    place.mkdir(exist_ok=True)
    try:
        apt.run("apt-get", "download", *LAST_PARTS, cwd=place)
    except AssertionError:
        return False
    return True


def finish(head: Head, node: RunningMachine, disk: Disk) -> None:
    """Where the archive is whole, the installation ends, and the disk is the one that was planned."""
    eventually(lambda: state(head) in (State.VERIFYING, State.UP, State.FAILED), 5400)
    assert state(head) is not State.FAILED, [event.message for event in head.events("gpu01")][-5:]
    node.power_off()
    planned = resolve("single-disk", shipped().layouts["single-disk"], FACTS, Owner("demo", "gpu01")).tables[0]
    real = json.loads(run(["sfdisk", "--json", disk.path]).stdout)["partitiontable"]["partitions"]
    assert [(p["start"] * 512, p["size"] * 512, p["name"], p["uuid"].lower()) for p in real] == [
        (part.start, part.size, part.volume.name, part.id) for part in planned.parts
    ]


def state(head: Head) -> State:
    return head.context.inventory.nodes(["gpu01"])[0].state


def test_a_seed_medium_starts_a_machine_that_cannot_start_over_the_network(head: Head, tmp_path: Path) -> None:
    head.enroll("gpu01", mac=MAC)
    medium = tmp_path / "seed.iso"
    head.headnode("image", "seed", "gpu01", "--output", str(medium))
    head.up()
    machine = Machine("gpu01", (MAC,), memory_mib=512, disks=(Disk(medium, medium.stat().st_size, "SEED"),))
    with plugged_in(head.lab, machine, [head.wire], tmp_path / "gpu01") as node:
        node.power_on(network_first=False)
        node.wait_for("Headnode: gpu01 was started from its seed medium", 240)
        node.wait_for("Headnode: gpu01 starts from its own disk", 240)
