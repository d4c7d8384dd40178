"""Debian's own partman makes of our recipe exactly the table that our plan makes, on a real (loop) disk."""

from pathlib import Path

import pytest

from headnode import run
from headnode.errors import LayoutRefused
from images import partman
from images.layouts import resolve
from images.plan import TYPES
from tests.images.partmanworld import evaluate, prepare
from tests.images.support import OWNER, shipped
from tests.integration.test_disks import GIB, facts, loop, table

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("losetup", "sfdisk", "unshare", "apt-get", "dpkg-deb"),
]
# A small virtual disk, an SSD sold as 480 GB, and an NVMe sold as 3.84 TB.
SIZES = (20 * GIB, 480_103_981_056, 3_840_755_982_336)
POSSIBLE = ("single-disk", "login")
METHODS = {"esp": "efi", "bios-boot": "biosgrub", "swap": "swap"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("partman"))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", POSSIBLE)
def test_partman_makes_exactly_our_table(root: Path, tmp_path: Path, layout: str, size: int) -> None:
    with loop(tmp_path, size) as device:
        found = resolve(layout, shipped().layouts[layout], facts(device), OWNER)
        (planned,) = found.tables
        made = evaluate(root, partman.recipe(found), device)
        assert [(one.number, one.start, one.end) for one in made] == [
            (part.number, part.start, part.start + part.size) for part in planned.parts
        ]
        for one, part in zip(made, planned.parts, strict=True):
            volume = part.volume
            assert one.method == METHODS.get(volume.type, "format")
            if one.method == "format":
                assert (one.file_system, one.mount) == (volume.type, volume.mount)
                assert one.options == tuple(sorted(volume.options))
        # The installation's last words give what a recipe cannot say; then the tables are the same in everything.
        for command in partman.late_commands(found):
            run.run(command.removeprefix("in-target ").split())
        real = table(device)
        assert [(part["name"], part["uuid"].lower(), part["type"]) for part in real] == [
            (part.volume.name, part.id, TYPES[part.volume.type]) for part in planned.parts
        ]


def test_every_other_shipped_layout_is_refused() -> None:
    """What Debian's installer cannot make is said, not approximated."""
    kinds = [(480 * GIB, "ssd"), (480 * GIB, "ssd"), (900 * GIB, "nvme"), (4000 * GIB, "nvme")]
    disks = [{"name": f"d{n}", "device": f"/dev/d{n}", "size": size, "type": kind, "serial": f"S{n}", "holds": []}
             for n, (size, kind) in enumerate(kinds)]  # fmt: skip
    which = {"default": (0, 2), "gpu-nvme": (2, 3), "raid1-system": (0, 1)}
    assert set(which) | set(POSSIBLE) == set(shipped().layouts)
    for name, numbers in which.items():
        machine = {"firmware": "uefi", "disks": [disks[number] for number in numbers]}
        found = resolve(name, shipped().layouts[name], machine, OWNER)
        with pytest.raises(LayoutRefused, match="Debian's installer cannot make several disks"):
            partman.recipe(found)
