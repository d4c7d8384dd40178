"""A plan in words, before anybody agrees to it: nothing that it writes is left out, and nothing that is lost."""

from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from images.inwords import disks
from images.layouts import Resolved, resolve
from tests.images.support import CASES, OWNER, facts_of, layout_of, read

FILES = sorted(CASES.glob("*.yaml"))


def resolved(path: Path) -> Resolved:
    case = read(path)
    name, layout = layout_of(case["layout"])
    consent = frozenset(case.get("consent", ()))
    return resolve(name, layout, facts_of(case["facts"]), OWNER, consent=consent, deployed=case.get("deployed"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_disk_volume_and_loss_is_said(path: Path) -> None:
    try:
        found = resolved(path)
    except HeadnodeError:
        return
    lines = list(disks(found))
    words = "\n".join(lines)
    for table in found.tables:
        assert f"disk {table.name}: {table.disk.device}, serial {table.disk.serial or '-'}, " in words
        kept = [part.kept.device for part in table.parts if part.kept]
        for held in table.disk.holds:
            if held.device != table.disk.device:
                assert (f"{held}" in words) == (held.device not in kept), held
    for place in found.places:
        (line,) = [line for line in lines if f" {place.volume.name}: " in line or f"swap file {place.device}:" in line]
        assert ("kept as it is" in line) == place.kept


def test_it_reads_like_this() -> None:
    assert list(disks(resolved(CASES / "consent-foreign.yaml")))[1].startswith("  erases ")
    assert "  3 data: 12 GiB xfs /data, kept as it is" in disks(resolved(CASES / "keep-survives.yaml"))
    mirrored = list(disks(resolved(CASES / "raid1-bios.yaml")))
    assert [line.split(":")[0] for line in mirrored if not line.startswith(" ")] == [
        "disk first", "disk second", "RAID 1 mirror", "volume group system",
    ]  # fmt: skip
    assert [line.split(":")[0] for line in disks(resolved(CASES / "swap-file.yaml"))][-1].startswith("swap file /")
