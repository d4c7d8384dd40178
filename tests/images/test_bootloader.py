"""What is written beside GRUB on a BIOS machine's other disks."""

import sys
from pathlib import Path

import pytest

from headnode import run
from images.bootloader import NOTHING_HERE


@pytest.mark.program("sfdisk")
def test_a_disk_that_is_passed_over_keeps_its_partitions(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(64 << 20)
    run.run(["sfdisk", "--quiet", disk], input="label: gpt\n1 : size=32M, name=data\n")
    before, sector = run.run(["sfdisk", "--dump", disk]).stdout, disk.read_bytes()[:512]
    assert sector[:2] + sector[510:] == b"\0\0\x55\xaa", "marked as one to start from, with nothing to start"
    run.run([sys.executable, "-c", NOTHING_HERE, disk])
    after = disk.read_bytes()[:512]
    assert after == b"\xcd\x18" + sector[2:]
    assert run.run(["sfdisk", "--dump", disk]).stdout == before
    assert run.run(["sfdisk", "--verify", disk]).returncode == 0
