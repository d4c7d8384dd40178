"""From a layout and a machine's facts to the exact table of disks, partitions, RAID sets and volumes.

Pure: nothing here touches a disk. images/plan.py turns the result into commands for our agent, images/curtin.py and
images/partman.py into what Ubuntu's and Debian's installers read.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from headnode import sizes
from headnode.errors import LayoutRefused
from headnode.site import Layout, Volume
from headnode.sizes import MIB
from images import disks, fitting
from images.consent import find_kept, refuse_duplicates, refuse_without_consent
from images.disks import Disk, Held
from images.owner import Owner

# mdadm chooses an offset by the size of the disk unless told; a fixed one makes the size of the set exact.
RAID_OFFSET = 16 * MIB
# LVM keeps its metadata in the first MiB of each disk and deals in extents of 4 MiB.
LVM_START = MIB
EXTENT = 4 * MIB


@dataclass(frozen=True)
class Part:
    """A partition: where it is, which number and identifier it has, and whether it is there already."""

    volume: Volume
    device: str
    number: int
    start: int
    size: int
    id: str
    kept: Held | None = None


@dataclass(frozen=True)
class Table:
    """One disk with its partitions, in their order on the disk."""

    name: str
    disk: Disk
    id: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Array:
    name: str
    device: str
    members: tuple[str, ...]
    size: int
    id: str


@dataclass(frozen=True)
class Group:
    name: str
    devices: tuple[str, ...]
    extents: int


@dataclass(frozen=True)
class Place:
    """Where a volume ended up, whatever carries it. For a swap file the device is its path in the new system."""

    volume: Volume
    device: str
    size: int
    kept: bool = False


@dataclass(frozen=True)
class Resolved:
    layout: str
    definition: Layout
    owner: Owner
    tables: tuple[Table, ...]
    arrays: tuple[Array, ...]
    groups: tuple[Group, ...]
    places: tuple[Place, ...]

    def place(self, name: str) -> Place:
        return next(place for place in self.places if place.volume.name == name)

    def backing(self, home: str) -> tuple[str, ...]:
        """The partitions that carry a RAID set or volume group, in the end."""
        members = self.definition.raid1.get(home) or self.definition.lvm[home]
        found: list[str] = []
        for member in (self.place(name) for name in members):
            on_disk = member.volume.on in self.definition.disks
            found += [member.device] if on_disk else self.backing(member.volume.on)
        return tuple(found)

    def overwritten(self, place: Place) -> tuple[str, ...]:
        """The partitions on which writing this volume is felt."""
        return (place.device,) if place.volume.on in self.definition.disks else self.backing(place.volume.on)

    @property
    def mounts(self) -> tuple[Place, ...]:
        """What is mounted, parents before children."""
        found = [place for place in self.places if place.volume.mount]
        return tuple(sorted(found, key=lambda place: (str(place.volume.mount).rstrip("/").count("/"),
                                                      str(place.volume.mount))))  # fmt: skip


def resolve(
    name: str,
    layout: Layout,
    facts: Mapping[str, Any],
    owner: Owner,
    *,
    consent: AbstractSet[str] = frozenset(),
    deployed: Mapping[str, str] | None = None,
) -> Resolved:
    """Match, check and compute; LayoutRefused says in one sentence which facts stand against it.

    `consent` holds the serial numbers of disks that may be overwritten whatever is on them; `deployed` says which
    serial number each of the layout's disks had at the last deployment.
    """
    found = disks.from_facts(facts)
    assigned = disks.assign(name, layout.disks, found)
    for disk_name, disk in assigned.items():
        refuse_without_consent(disk, disk_name, layout, owner, consent, deployed or {})
    refuse_duplicates(found, list(assigned.values()), owner)
    tables = tuple(table(name, disk_name, disk, layout, owner, consent) for disk_name, disk in assigned.items())
    places = {part.volume.name: Place(part.volume, part.device, part.size, part.kept is not None)
              for table in tables for part in table.parts}  # fmt: skip
    arrays = tuple(array(set_name, members, places, owner) for set_name, members in layout.raid1.items())
    for made in arrays:
        places |= on_array(made, layout)
    groups = tuple(group(group_name, members, places) for group_name, members in layout.lvm.items())
    for volumes in groups:
        places |= on_group(name, volumes, layout)
    places |= swap_files(layout, places)
    in_order = tuple(places[volume.name] for volume in layout.volumes)
    return Resolved(name, layout, owner, tables, arrays, groups, in_order)


def table(layout_name: str, name: str, disk: Disk, layout: Layout, owner: Owner, consent: AbstractSet[str]) -> Table:
    volumes = [volume for volume in layout.volumes if volume.on == name and volume.type != "swapfile"]
    kept = {
        volume.name: held for volume in volumes if volume.keep and (held := find_kept(disk, volume, owner, consent))
    }
    refuse_one_for_two(disk, kept)
    spans = fitting.arrange(f"disk '{name}' of layout '{layout_name}', {disk},", disk, volumes, kept)
    numbers = number(disk, volumes, kept)
    parts = [
        Part(
            volume,
            disk.partition(numbers[volume.name]),
            numbers[volume.name],
            spans[volume.name].start,
            spans[volume.name].size,
            owner.id(purpose(volume, kept), volume.name),
            kept.get(volume.name),
        )
        for volume in volumes
    ]
    return Table(name, disk, owner.id("disk", name), tuple(sorted(parts, key=lambda part: part.start)))


def refuse_one_for_two(disk: Disk, kept: Mapping[str, Held]) -> None:
    seen: dict[str, str] = {}
    for name, held in kept.items():
        if held.device in seen:
            raise LayoutRefused(f"{held} on {disk} could be the kept '{seen[held.device]}' and the kept '{name}'")
        seen[held.device] = name


def purpose(volume: Volume, kept: Mapping[str, Held]) -> str:
    if not volume.keep:
        return "partition"
    return "keep" if volume.name in kept else "fresh"


def number(disk: Disk, volumes: list[Volume], kept: Mapping[str, Held]) -> dict[str, int]:
    """Kept partitions keep their numbers; the others get the free ones in order."""
    found = {name: at for name, held in kept.items() if (at := disk.number(held.device))}
    free = iter(n for n in range(1, 129) if n not in found.values())
    return {volume.name: found.get(volume.name) or next(free) for volume in volumes}


def array(name: str, members: tuple[str, ...], places: Mapping[str, Place], owner: Owner) -> Array:
    size = min(places[member].size for member in members) - RAID_OFFSET
    devices = tuple(places[member].device for member in members)
    return Array(name, f"/dev/md/{name}", devices, sizes.down(size, MIB), owner.id("array", name))


def on_array(made: Array, layout: Layout) -> dict[str, Place]:
    volumes = [volume for volume in layout.volumes if volume.on == made.name]
    measured = fitting.measure(f"RAID set '{made.name}'", made.size, MIB, volumes)
    return {volume.name: Place(volume, made.device, measured[volume.name]) for volume in volumes}


def group(name: str, members: tuple[str, ...], places: Mapping[str, Place]) -> Group:
    extents = sum((places[member].size - LVM_START) // EXTENT for member in members)
    return Group(name, tuple(places[member].device for member in members), extents)


def on_group(layout_name: str, made: Group, layout: Layout) -> dict[str, Place]:
    volumes = [volume for volume in layout.volumes if volume.on == made.name and volume.type != "swapfile"]
    home = f"volume group '{made.name}' of layout '{layout_name}'"
    measured = fitting.measure(home, made.extents * EXTENT, EXTENT, volumes)
    return {volume.name: Place(volume, f"/dev/{made.name}/{volume.name}", measured[volume.name]) for volume in volumes}


def swap_files(layout: Layout, places: Mapping[str, Place]) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for volume in layout.volumes:
        if volume.type == "swapfile":
            holder = places[volume.on]
            size = fitting.wanted(volume, holder.size, MIB)
            # The file system's own tables and the system itself need room too.
            if size > holder.size // 2:
                raise LayoutRefused(
                    f"the swap file '{volume.name}' ({sizes.shown(size)}) would take more than half of "
                    f"'{volume.on}' ({sizes.shown(holder.size)})"
                )
            path = f"{str(holder.volume.mount).rstrip('/')}/{volume.name}"
            found[volume.name] = Place(volume, path, size)
    return found
