"""Sizes and positions, exact to the byte.

We compute them because sfdisk does not refuse: it makes a partition that is too large silently smaller.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headnode import sizes
from headnode.errors import LayoutRefused
from headnode.site import Volume
from headnode.sizes import MIB
from images.disks import Disk, Held

# Less than this and mkfs refuses, or the firmware cannot read the result.
SMALLEST = {"esp": 34 * MIB, "ext4": 16 * MIB, "xfs": 300 * MIB, "raid": 64 * MIB, "lvm": 16 * MIB}


@dataclass(frozen=True)
class Span:
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def gpt_end(disk: Disk) -> int:
    """The copy of the GPT at the end of a disk: 16 KiB of entries and one sector."""
    return 16 * 1024 + disk.sector_size


def usable(disk: Disk) -> Span:
    """Where partitions may be: from 1 MiB, so that everything is aligned, to before the copy of the GPT."""
    return Span(MIB, max(0, sizes.down(disk.size - gpt_end(disk), MIB) - MIB))


def measure(home: str, total: int, unit: int, volumes: Sequence[Volume]) -> dict[str, int]:
    """The size of each volume of a home that has this many bytes, in whole units."""
    found = {volume.name: wanted(volume, total, unit) for volume in volumes if volume.size != "rest"}
    taken = sum(found.values())
    if taken > total:
        raise LayoutRefused(f"{home} is too small: {listed(found)} need {exact(taken)}, and {exact(total)} can be used")
    for volume in volumes:
        if volume.size == "rest":
            found[volume.name] = total - taken
            least = sizes.to_bytes(volume.min_size) if volume.min_size else unit
            if total - taken < least:
                raise LayoutRefused(
                    f"{home} is too small: {listed(found)} leave {exact(total - taken)} of {exact(total)} "
                    f"for '{volume.name}', which needs {exact(least)}"
                )
    refuse_tiny(home, volumes, found)
    return {volume.name: found[volume.name] for volume in volumes}


def wanted(volume: Volume, total: int, unit: int) -> int:
    size = sizes.parse(volume.size)
    if size.percent is None:
        return sizes.up(size.fixed or unit, unit)
    share = sizes.down(total * size.percent // 100, unit)
    if volume.max_size:
        share = min(share, sizes.down(sizes.to_bytes(volume.max_size), unit))
    if volume.min_size:
        share = max(share, sizes.up(sizes.to_bytes(volume.min_size), unit))
    return max(share, unit)


def refuse_tiny(home: str, volumes: Sequence[Volume], found: Mapping[str, int]) -> None:
    for volume in volumes:
        least = SMALLEST.get(volume.type, 0)
        if found[volume.name] < least:
            raise LayoutRefused(
                f"{home} is too small: '{volume.name}' would get {exact(found[volume.name])}, "
                f"and {volume.type} needs at least {exact(least)}"
            )


def listed(found: Mapping[str, int]) -> str:
    return ", ".join(f"'{name}' ({exact(size)})" for name, size in found.items()) or "no other volumes"


def exact(size: int) -> str:
    """In whole MiB, because a rounded 20 GiB that does not fit into 20 GiB explains nothing."""
    return f"{size // MIB} MiB"


def arrange(home: str, disk: Disk, volumes: Sequence[Volume], kept: Mapping[str, Held]) -> dict[str, Span]:
    """Where each volume is. Kept ones are exactly where they are now, the others around them."""
    room = usable(disk)
    try:
        plain = in_order(room, measure(home, room.size, MIB, volumes))
    except LayoutRefused:
        if not kept:
            raise
        return around(home, disk, volumes, kept)
    # The usual reinstall: the same layout on the same disk computes the same table again.
    if all(plain[name] == Span(held.start, held.size) for name, held in kept.items()):
        return plain
    return around(home, disk, volumes, kept)


def in_order(room: Span, measured: Mapping[str, int]) -> dict[str, Span]:
    found, at = {}, room.start
    for name, size in measured.items():
        found[name] = Span(at, size)
        at += size
    return found


def around(home: str, disk: Disk, volumes: Sequence[Volume], kept: Mapping[str, Held]) -> dict[str, Span]:
    room = usable(disk)
    found = {name: Span(held.start, held.size) for name, held in kept.items()}
    free = gaps(home, disk, found)
    names = " and ".join(f"'{name}'" for name in kept)
    others = [volume for volume in volumes if volume.name not in kept]
    for volume in sorted(others, key=lambda volume: volume.size == "rest"):
        size = wanted(volume, room.size, MIB) if volume.size != "rest" else rest_size(volume, free)
        at = next((i for i, gap in enumerate(free) if gap.size >= size), None)
        if at is None:
            largest = max((gap.size for gap in free), default=0)
            raise LayoutRefused(
                f"{home} has no room for '{volume.name}' ({exact(size)}) beside what is kept ({names}): "
                f"the largest space left is {exact(largest)}"
            )
        found[volume.name] = Span(free[at].start, size)
        free[at] = Span(free[at].start + size, free[at].size - size)
    refuse_tiny(home, others, {name: span.size for name, span in found.items()})
    return found


def rest_size(volume: Volume, free: Sequence[Span]) -> int:
    """All of the largest space that is left; of equal ones the first is taken."""
    least = sizes.to_bytes(volume.min_size) if volume.min_size else MIB
    return max(least, max((gap.size for gap in free), default=0))


def gaps(home: str, disk: Disk, kept: Mapping[str, Span]) -> list[Span]:
    """The aligned spaces between kept partitions, which themselves need not be aligned."""
    room = usable(disk)
    found, at, end = [], room.start, room.start
    for name, span in sorted(kept.items(), key=lambda item: item[1].start):
        if span.start < end or span.end > disk.size - gpt_end(disk) or span.size <= 0 or span.start % disk.sector_size:
            raise LayoutRefused(
                f"{home} cannot be arranged: the kept '{name}' (from byte {span.start}, {span.size} bytes) "
                f"overlaps another or is outside the space for partitions"
            )
        found.append(Span(at, max(0, sizes.down(span.start, MIB) - at)))
        at, end = sizes.up(span.end, MIB), span.end
    found.append(Span(at, max(0, room.end - at)))
    return [gap for gap in found if gap.size >= MIB]
