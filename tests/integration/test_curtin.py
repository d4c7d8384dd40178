"""Ubuntu's storage configuration, carried out on a loop disk, gives the table that our own plan gives on another."""

from pathlib import Path
from typing import Any

import pytest

from headnode import run
from headnode.sizes import MIB
from images import curtin
from images.layouts import Resolved, resolve
from tests.images.support import OWNER, shipped
from tests.images.test_installers import script_by_curtin
from tests.integration.test_disks import GIB, KEEP, blkid, carry_out, facts, loop, table

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    *(pytest.mark.program(name) for name in ("losetup", "sfdisk", "partx", "blkid", "mkfs.xfs", "mkfs.vfat")),
]
MAKE = {
    "ext4": lambda a: ["mkfs.ext4", "-q", "-F", "-L", a["label"], "-U", a["uuid"]],
    "xfs": lambda a: ["mkfs.xfs", "-q", "-f", "-L", a["label"], "-m", f"uuid={a['uuid']}"],
    "fat32": lambda a: ["mkfs.vfat", "-F", "32", "-n", a["label"]],
    "swap": lambda a: ["mkswap", "--label", a["label"], "--uuid", a["uuid"]],
}


def carry_out_curtin(resolved: Resolved) -> None:
    """curtin's version 2, as far as one disk goes: sfdisk with exact offsets, then file systems, in the order given."""
    actions = curtin.config(resolved, "bios")
    (planned,) = resolved.tables
    (disk,) = [action for action in actions if action["type"] == "disk"]
    device = planned.disk.device
    script = script_by_curtin(actions, disk, planned.id, planned.disk.sector_size)
    run.run(["sfdisk", "--wipe", "always", "--no-reread", device], input=script)
    run.run(["partx", "--update", device], check=False)
    numbers = {action["id"]: action["number"] for action in actions if action["type"] == "partition"}
    for action in actions:
        if action["type"] == "format":
            run.run([*MAKE[action["fstype"]](action), f"{device}p{numbers[action['volume']]}"], timeout=120)


def described(device: str) -> list[tuple[Any, ...]]:
    """Everything of a table and its file systems but the names of devices."""
    found = []
    for part in table(device):
        inside = blkid(part["node"])
        same = inside.get("UUID") if inside.get("TYPE") != "vfat" else None
        found.append((part["start"], part["size"], part["type"], part["uuid"], part.get("name"), inside.get("TYPE"),
                      inside.get("LABEL"), same))  # fmt: skip
    return found


@pytest.mark.parametrize("name", ["single-disk", "login", "keep"])
@pytest.mark.parametrize("size", [8 * GIB, 20 * GIB + 700 * 512])
def test_both_routes_give_the_same_disk(tmp_path: Path, name: str, size: int) -> None:
    layout = KEEP if name == "keep" else shipped().layouts[name]
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    with loop(tmp_path / "ours", size) as ours, loop(tmp_path / "theirs", size) as theirs:
        carry_out(resolve(name, layout, facts(ours), OWNER))
        carry_out_curtin(resolve(name, layout, facts(theirs), OWNER))
        assert described(ours) == described(theirs)
        assert len(described(ours)) >= 4
        assert all(part[0] * 512 % MIB == 0 for part in described(ours))
