"""Checks of one disk layout that need no machine: what is found here is wrong on every node."""

import re
from collections import Counter
from collections.abc import Iterator

from headnode import sizes
from headnode.site import Layout, Volume

Path = tuple[str | int, ...]
Finding = tuple[Path, object, str]

MOUNT = re.compile(r"/|(/[A-Za-z0-9._+-]+)+", re.ASCII)
OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:=/@+%-]*", re.ASCII)
LVM_NAME = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)
SET_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,32}", re.ASCII)
# Directories below /dev that a volume group of the same name would hide behind.
RESERVED = ("block", "bus", "char", "cpu", "disk", "dri", "fd", "input", "mapper", "md", "net", "pts", "shm", "snd")
# A GPT partition label has room for 36 characters.
LONGEST_NAME = 36
# What every deployment unpacks anew cannot be kept.
SYSTEM_MOUNTS = ("/", "/boot", "/boot/efi", "/etc", "/usr", "/var")


def problems(layout: Layout) -> Iterator[Finding]:
    yield from home_problems(layout)
    yield from name_problems(layout)
    for index, volume in enumerate(layout.volumes):
        for key, value, expected in volume_problems(layout, volume):
            yield ("volumes", index, key), value, expected
    yield from mount_problems(layout)
    yield from set_problems(layout)
    for home in homes(layout):
        yield from share_problems(layout, home)


def homes(layout: Layout) -> list[str]:
    return [*layout.disks, *layout.raid1, *layout.lvm]


def home_problems(layout: Layout) -> Iterator[Finding]:
    for name, count in Counter(homes(layout)).items():
        if count > 1:
            kind = "lvm" if name in layout.lvm else "raid1"
            yield (kind, name), name, "a disk, RAID set or volume group has that name already; use another"
    for kind, sets in (("raid1", layout.raid1), ("lvm", layout.lvm)):
        for name in sets:
            if not SET_NAME.fullmatch(name) or name in RESERVED:
                yield (kind, name), name, "use up to 32 letters, digits and . _ + - that name nothing else below /dev"


def name_problems(layout: Layout) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, volume in enumerate(layout.volumes):
        at = ("volumes", index, "name")
        if volume.name in seen:
            yield at, volume.name, "two volumes have that name; give each its own"
        if len(volume.name) > LONGEST_NAME:
            yield at, volume.name, f"a partition label has at most {LONGEST_NAME} characters"
        if volume.on in layout.lvm and not LVM_NAME.fullmatch(volume.name):
            yield at, volume.name, "LVM takes letters, digits and . _ + - only"
        seen.add(volume.name)


def volume_problems(layout: Layout, volume: Volume) -> Iterator[tuple[str, object, str]]:
    if volume.type == "swapfile":
        yield from swapfile_problems(layout, volume)
    elif volume.on not in homes(layout):
        yield "on", volume.on, f"use one of this layout's {', '.join(sorted(homes(layout)))}"
    elif volume.type in ("esp", "bios-boot", "raid") and volume.on not in layout.disks:
        yield "on", volume.on, f"a volume of type {volume.type} must be on a disk: {', '.join(sorted(layout.disks))}"
    elif volume.type == "lvm" and volume.on in layout.lvm:
        yield "on", volume.on, "a volume group cannot be inside another; use a disk or a RAID set"
    elif volume.on in layout.raid1 and volume.size != "rest":
        yield "size", volume.size, "a volume on a RAID set takes all of it; use rest, or LVM on the set"
    yield from bound_problems(volume)
    if volume.keep:
        yield from keep_problems(layout, volume)
    for option in volume.options:
        if not OPTION.fullmatch(option):
            yield "options", option, "use one mount option per list item, such as nodev"


def swapfile_problems(layout: Layout, volume: Volume) -> Iterator[tuple[str, object, str]]:
    holders = {
        other.name: other
        for other in layout.volumes
        if other.type in ("ext4", "xfs") and other.mount and not other.keep
    }
    if volume.on not in holders:
        yield "on", volume.on, f"a swap file is on a mounted volume; use one of {', '.join(sorted(holders)) or 'none'}"
    if volume.size == "rest":
        yield "size", volume.size, "a swap file needs a fixed size or a share of its volume"


def bound_problems(volume: Volume) -> Iterator[tuple[str, object, str]]:
    low, high = volume.min_size, volume.max_size
    if low and high and sizes.to_bytes(low) > sizes.to_bytes(high):
        yield "min_size", low, f"that is more than max_size {high}"
    if (low or high) and sizes.parse(volume.size).fixed is not None:
        yield "size", volume.size, "a fixed size takes no min_size or max_size; use a share such as 20%"
    if high and volume.size == "rest":
        yield "max_size", high, "the rest has no upper bound; use a share such as 90%"


def keep_problems(layout: Layout, volume: Volume) -> Iterator[tuple[str, object, str]]:
    if volume.type not in ("ext4", "xfs"):
        yield "keep", "true", f"only ext4 and xfs volumes can be kept, and this is {volume.type}"
    elif volume.on not in layout.disks:
        yield "keep", "true", "only a partition on a disk can be kept, not one on a RAID set or volume group"
    elif volume.mount in SYSTEM_MOUNTS:
        yield "keep", "true", f"{volume.mount} belongs to the system and is written anew; keep another volume"


def mount_problems(layout: Layout) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, volume in enumerate(layout.volumes):
        at, mount = ("volumes", index, "mount"), volume.mount
        if mount is None:
            continue
        if not mount.startswith("/"):
            yield at, mount, "use an absolute path, such as /var"
        elif not MOUNT.fullmatch(mount) or ".." in mount:
            yield at, mount, "use a path of letters, digits and . _ + - without .. or a slash at its end"
        elif mount in seen:
            yield at, mount, "two volumes are mounted there; use another path"
        elif volume.type not in ("ext4", "xfs", "esp"):
            yield at, mount, f"a volume of type {volume.type} cannot be mounted"
        seen.add(mount)
    if not any(volume.mount == "/" and volume.type in ("ext4", "xfs") for volume in layout.volumes):
        yield ("volumes",), "", "needs a volume of type ext4 or xfs that is mounted at /"


def set_problems(layout: Layout) -> Iterator[Finding]:
    volumes = {volume.name: volume for volume in layout.volumes}
    for kind, wanted, sets in (("raid1", "raid", layout.raid1), ("lvm", "lvm", layout.lvm)):
        for name, members in sets.items():
            for member in members:
                if member not in volumes:
                    yield (kind, name), member, f"use volumes of this layout: {', '.join(sorted(volumes))}"
                elif volumes[member].type != wanted:
                    yield (kind, name), member, f"that volume is of type {volumes[member].type}; use type {wanted}"
        used = Counter(member for members in sets.values() for member in members)
        for index, volume in enumerate(layout.volumes):
            if volume.type == wanted and used[volume.name] != 1:
                expected = f"a volume of type {wanted} belongs to exactly one set under {kind}"
                yield ("volumes", index, "name"), volume.name, expected
    yield from raid_problems(layout, volumes)


def raid_problems(layout: Layout, volumes: dict[str, Volume]) -> Iterator[Finding]:
    for name, members in layout.raid1.items():
        disks = [volumes[member].on for member in members if member in volumes]
        if len(set(disks)) < max(2, len(members)):
            yield ("raid1", name), ", ".join(members), "a mirror needs volumes on at least two different disks"
        inside = [volume.name for volume in layout.volumes if volume.on == name]
        if len(inside) != 1:
            listed = ", ".join(inside) or "none"
            yield ("raid1", name), listed, "a RAID set holds exactly one volume; use LVM on it for more"


def share_problems(layout: Layout, home: str) -> Iterator[Finding]:
    here = [(i, v, sizes.parse(v.size)) for i, v in enumerate(layout.volumes) if v.on == home and v.type != "swapfile"]
    rests = [(i, v) for i, v, size in here if size.rest]
    if len(rests) > 1:
        index, volume = rests[1]
        yield ("volumes", index, "size"), volume.size, f"only one volume on '{home}' can take the rest"
    shares = [(i, size.percent) for i, _, size in here if size.percent is not None]
    if (total := sum(percent for _, percent in shares)) > 100:
        yield ("volumes", shares[-1][0], "size"), f"{shares[-1][1]}%", f"the shares of '{home}' add up to {total}%"
