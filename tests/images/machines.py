"""Machines and layouts that nobody has thought of, for the property tests."""

from typing import Any

from hypothesis import strategies as st

from headnode import layoutchecks
from headnode.site import DiskMatch, Layout, Volume
from headnode.sizes import MIB
from tests.images.support import OWNER

GIB = 1024 * MIB
SIZES = st.one_of(
    st.integers(1, 4000).map(lambda n: f"{n}M"),
    st.integers(1, 20).map(lambda n: f"{n}G"),
    st.integers(1, 14).map(lambda n: f"{n}%"),
)
PURPOSES = st.sampled_from(["partition", "fresh", "keep", "foreign"])


@st.composite
def volumes(draw: st.DrawFn, on: str, start: int) -> list[Volume]:
    kinds = st.sampled_from(["ext4", "xfs", "swap"])
    made = []
    for index in range(draw(st.integers(1, 6))):
        kind = draw(kinds)
        keep = kind != "swap" and draw(st.booleans())
        made.append(Volume(name=f"v{start + index}", on=on, size=draw(SIZES), type=kind, keep=keep))
    return made


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """One or two disks with anything on them, among it a root and what either firmware starts from."""
    names = ["a", "b"][: draw(st.integers(1, 2))]
    matches = {name: DiskMatch(serial=f"S{index}") for index, name in enumerate(names)}
    found = [
        Volume(name="bios", on="a", size="1M", type="bios-boot"),
        Volume(name="esp", on="a", size="64M", type="esp", mount="/boot/efi"),
        Volume(name="root", on="a", size=draw(SIZES), mount="/"),
    ]
    for index, name in enumerate(names):
        found += draw(volumes(name, 10 * index))
    rests = draw(st.lists(st.sampled_from(names), unique=True))
    found = [v.model_copy(update={"size": "rest"}) if v.on in rests and is_last(v, found) else v for v in found]
    layout = Layout(disks=matches, volumes=tuple(draw(st.permutations(found))))
    assert not list(layoutchecks.problems(layout))
    return layout


def is_last(volume: Volume, among: list[Volume]) -> bool:
    return volume is [other for other in among if other.on == volume.on][-1]


@st.composite
def helds(draw: st.DrawFn, device: str, number: int, start: int, size: int) -> dict[str, Any]:
    label = draw(st.sampled_from(["root", "v0", "v1", "v2", "v10", "v11", "other", ""]))
    purpose = draw(PURPOSES)
    uuid = "11111111-2222-3333-4444-555555555555" if purpose == "foreign" else OWNER.id(purpose, label)
    kind = draw(st.sampled_from(["ext4", "xfs", "swap", ""]))
    return {"device": f"{device}{number}", "start": start, "size": size, "type": kind, "partlabel": label,
            "label": label, "partuuid": uuid}  # fmt: skip


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Up to four disks of any size, with partitions of any origin on them, in any order."""
    disks = []
    for index in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 300)) * GIB + draw(st.integers(0, 4096)) * 4096
        name = f"sd{'abcd'[index]}"
        holds, at = [], MIB
        for number in range(1, draw(st.integers(0, 3)) + 1):
            length = draw(st.integers(1, 20)) * GIB
            holds.append(draw(helds(f"/dev/{name}", number, at, length)))
            at += length + draw(st.sampled_from([0, 4096, MIB]))
        disks.append({"name": name, "device": f"/dev/{name}", "size": size, "type": "ssd", "serial": f"S{index}",
                      "sector": draw(st.sampled_from([512, 4096])), "removable": draw(st.integers(0, 9)) == 0,
                      "holds": holds})  # fmt: skip
    return {"firmware": draw(st.sampled_from(["bios", "uefi"])), "disks": draw(st.permutations(disks))}
