"""Plans against real disks: loop devices, the real sfdisk and mkfs, and what they left behind."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headnode import run
from headnode.site import Layout
from headnode.sizes import MIB
from images.layouts import Resolved, resolve
from images.plan import TYPES, disk_steps
from tests.images.support import OWNER, shipped

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    *(pytest.mark.program(name) for name in ("losetup", "sfdisk", "partx", "blkid", "mkfs.xfs", "mkfs.vfat")),
]
GIB = 1024 * MIB
KEEP = Layout.model_validate(
    {
        "disks": {"system": {}},
        "volumes": [
            {"name": "bios", "on": "system", "size": "1M", "type": "bios-boot"},
            {"name": "swap", "on": "system", "size": "64M", "type": "swap"},
            {"name": "root", "on": "system", "size": "40%", "mount": "/"},
            {"name": "data", "on": "system", "size": "rest", "type": "xfs", "mount": "/data", "keep": True},
        ],
    }
)


@contextlib.contextmanager
def loop(directory: Path, size: int, sector: int = 512) -> Iterator[str]:
    image = directory / f"disk-{size}-{sector}"
    with image.open("ab") as file:
        file.truncate(size)
    argv = ["losetup", "--find", "--show", "--sector-size", str(sector), str(image)]
    device = run.run(argv).stdout.strip()
    try:
        yield device
    finally:
        run.run(["partx", "--delete", device], check=False)
        run.run(["losetup", "--detach", device])


def facts(device: str, sector: int = 512) -> dict[str, Any]:
    """What the agent would report of this disk."""
    name = device.removeprefix("/dev/")
    size = int(run.run(["blockdev", "--getsize64", device]).stdout)
    holds = []
    for part in table(device):
        found = blkid(part["node"])
        holds.append({"device": part["node"], "start": part["start"] * sector, "size": part["size"] * sector,
                      "type": found.get("TYPE", ""), "label": found.get("LABEL", ""), "uuid": found.get("UUID", ""),
                      "partlabel": part.get("name", ""), "partuuid": part.get("uuid", "")})  # fmt: skip
    return {"firmware": "bios", "disks": [{"name": name, "device": device, "size": size, "type": "ssd",
                                           "serial": "LOOP-1", "sector": sector, "holds": holds}]}  # fmt: skip


def table(device: str) -> list[dict[str, Any]]:
    done = run.run(["sfdisk", "--json", device], check=False)
    return list(json.loads(done.stdout)["partitiontable"].get("partitions", [])) if done.returncode == 0 else []


def blkid(device: str) -> dict[str, str]:
    lines = run.run(["blkid", "--probe", "--output", "export", device], check=False).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def carry_out(resolved: Resolved) -> None:
    for step in disk_steps(resolved):
        run.run(step["argv"], input=step["input"], timeout=120)
        if step["argv"][0] == "sfdisk":
            # This machine's kernel may not read GPT by itself; nodes' kernels do.
            run.run(["partx", "--update", resolved.tables[0].disk.device], check=False)


def assert_as_planned(resolved: Resolved) -> None:
    (planned,) = resolved.tables
    real = {part["node"]: part for part in table(planned.disk.device)}
    assert len(real) == len(planned.parts)
    for part in planned.parts:
        found, sector = real[part.device], planned.disk.sector_size
        assert (found["start"] * sector, found["size"] * sector) == (part.start, part.size)
        assert found["name"] == part.volume.name
        assert found["type"] == TYPES[part.volume.type]
        final = OWNER.id("keep" if part.volume.keep else "partition", part.volume.name)
        assert found["uuid"].lower() == final
        kind = {"bios-boot": None, "esp": "vfat", "raid": None, "lvm": None}.get(part.volume.type, part.volume.type)
        content = blkid(part.device)
        assert content.get("TYPE") == kind
        if part.volume.type in ("ext4", "xfs", "swap") and not part.kept:
            assert content["UUID"] == OWNER.id("fs", part.volume.name)


@pytest.mark.parametrize("layout", ["single-disk", "login"])
@pytest.mark.parametrize(("size", "sector"), [(8 * GIB, 512), (8 * GIB + 700 * 512, 512), (20 * GIB, 4096)])
def test_shipped_layouts_on_real_disks(tmp_path: Path, layout: str, size: int, sector: int) -> None:
    with loop(tmp_path, size, sector) as device:
        resolved = resolve(layout, shipped().layouts[layout], facts(device, sector), OWNER)
        carry_out(resolved)
        assert_as_planned(resolved)
        again = resolve(layout, shipped().layouts[layout], facts(device, sector), OWNER)
        assert [part.start for part in again.tables[0].parts] == [part.start for part in resolved.tables[0].parts]


def write_inside(device: str, directory: Path) -> str:
    directory.mkdir(exist_ok=True)
    with mounted(device, directory):
        (directory / "thesis.tex").write_bytes(b"three years of work\n" * 50_000)
    return content_of(device, directory)


def content_of(device: str, directory: Path) -> str:
    with mounted(device, directory):
        return hashlib.sha256((directory / "thesis.tex").read_bytes()).hexdigest()


@contextlib.contextmanager
def mounted(device: str, directory: Path) -> Iterator[None]:
    run.run(["mount", device, directory])
    try:
        yield
    finally:
        run.run(["umount", directory])


@pytest.mark.parametrize("root_size", ["40%", "30%"], ids=["same-layout", "changed-layout"])
def test_a_kept_volume_survives_reinstalling(tmp_path: Path, root_size: str) -> None:
    with loop(tmp_path, 2 * GIB) as device:
        carry_out(resolve("keep", KEEP, facts(device), OWNER))
        before = write_inside(f"{device}p4", tmp_path / "at")
        raw = table(device)[3]
        volumes = [v.model_copy(update={"size": root_size}) if v.name == "root" else v for v in KEEP.volumes]
        second = resolve("keep", KEEP.model_copy(update={"volumes": tuple(volumes)}), facts(device), OWNER)
        carry_out(second)
        assert_as_planned(second)
        assert table(device)[3] == raw
        assert content_of(f"{device}p4", tmp_path / "at") == before


def test_cut_off_anywhere_and_started_again(tmp_path: Path) -> None:
    """After any number of steps the next run completes, and a finished kept volume is never formatted again."""
    with loop(tmp_path, 2 * GIB) as device:
        count = len(list(disk_steps(resolve("keep", KEEP, facts(device), OWNER))))
        for cut in range(1, count + 1):
            for step in list(disk_steps(resolve("keep", KEEP, facts(device), OWNER)))[:cut]:
                run.run(step["argv"], input=step["input"])
                run.run(["partx", "--update", device], check=False)
        resolved = resolve("keep", KEEP, facts(device), OWNER)
        assert [part.volume.name for part in resolved.tables[0].parts if part.kept] == ["data"]
        carry_out(resolved)
        assert_as_planned(resolved)


def test_a_disk_full_of_somebody_elses_things(tmp_path: Path) -> None:
    """With consent all old signatures are gone, whatever they were and wherever they were."""
    with loop(tmp_path, 8 * GIB) as device:
        run.run(["sfdisk", device], input="label: dos\nstart=2048, size=1000000\nstart=2000000\n")
        run.run(["partx", "--update", device], check=False)
        run.run(["mkfs.ext4", "-q", "-L", "payroll", f"{device}p1"])
        run.run(["mkswap", f"{device}p2"])
        layout = shipped().layouts["single-disk"]
        resolved = resolve("single-disk", layout, facts(device), OWNER, consent={"LOOP-1"})
        carry_out(resolved)
        assert_as_planned(resolved)


@pytest.mark.program("vgcreate")
def test_lvm_has_exactly_the_extents_that_were_computed(tmp_path: Path) -> None:
    """Physical volumes and groups need no device mapper, so this much of LVM is real on any machine."""
    layout = Layout.model_validate(
        {
            "disks": {"a": {}},
            "lvm": {"hntest": ["pv"]},
            "volumes": [
                {"name": "bios", "on": "a", "size": "1M", "type": "bios-boot"},
                {"name": "pv", "on": "a", "size": "rest", "type": "lvm"},
                {"name": "root", "on": "hntest", "size": "rest", "mount": "/"},
            ],
        }
    )
    with loop(tmp_path, 2 * GIB + 3 * MIB) as device:
        resolved = resolve("lvm", layout, facts(device), OWNER)
        only = ["--config", f'devices {{ filter=["a|^{device}p|","r|.*|"] }}']
        try:
            for step in disk_steps(resolved):
                if step["argv"][0] in ("sfdisk", "wipefs"):
                    run.run(step["argv"], input=step["input"])
                    run.run(["partx", "--update", device], check=False)
                elif step["argv"][0] in ("pvcreate", "vgcreate"):
                    run.run([*step["argv"], *only])
            asked = [
                "vgs",
                "--noheadings",
                "--options",
                "vg_extent_count,vg_extent_size",
                "--units",
                "b",
                *only,
                "hntest",
            ]
            count, size = run.run(asked).stdout.split()
            assert (int(count), size) == (resolved.groups[0].extents, f"{4 * MIB}B")
        finally:
            run.run(["vgremove", "--yes", *only, "hntest"], check=False)


def test_loop_devices_are_given_back() -> None:
    assert "/disk-" not in run.run(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"]).stdout
