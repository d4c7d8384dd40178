"""The disks of a machine, as its agent reported them, and which of them a layout means."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from headnode import sizes
from headnode.errors import LayoutRefused, shown
from headnode.site import DiskMatch

# Device names become arguments of programs that run as root, so nothing but a plain path may pass.
DEVICE = re.compile(r"/dev/[A-Za-z0-9][A-Za-z0-9/_.+-]*", re.ASCII)


@dataclass(frozen=True)
class Held:
    """A partition or file system that is on a disk now; start and size in bytes."""

    device: str
    start: int = 0
    size: int = 0
    type: str = ""
    label: str = ""
    partlabel: str = ""
    uuid: str = ""
    partuuid: str = ""

    def __str__(self) -> str:
        words = [self.type or "no file system"]
        words += [f"label {shown(self.label)}"] if self.label else []
        words += [f"partition label {shown(self.partlabel)}"] if self.partlabel else []
        return f"{self.device.removeprefix('/dev/')} ({', '.join(words)})"


@dataclass(frozen=True)
class Disk:
    name: str
    device: str
    size: int
    type: str = ""
    rotational: bool = False
    model: str = ""
    serial: str = ""
    wwn: str = ""
    by_path: str = ""
    removable: bool = False
    read_only: bool = False
    boot_medium: bool = False
    sector_size: int = 512
    holds: tuple[Held, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether a layout may ever mean this disk."""
        return not (self.removable or self.read_only or self.boot_medium) and self.size > 0

    def partition(self, number: int) -> str:
        """nvme0n1 and loop0 put a p before the number, because they end in one themselves."""
        return f"{self.device}{'p' if self.device[-1].isdigit() else ''}{number}"

    def number(self, device: str) -> int | None:
        """The number of one of this disk's partitions, or None for anything else."""
        start = self.partition(0)[:-1]
        rest = device.removeprefix(start)
        return int(rest) if device.startswith(start) and rest.isdecimal() else None

    def __str__(self) -> str:
        words = [sizes.shown(self.size), f"serial {shown(self.serial)}" if self.serial else "no serial number"]
        return f"{self.name} ({', '.join(words)})"


def from_facts(facts: Mapping[str, Any]) -> tuple[Disk, ...]:
    """The disks in a machine's facts; what the facts leave out counts as unknown, never as fitting."""
    return tuple(disk(entry) for entry in facts.get("disks") or ())


def disk(entry: Mapping[str, Any]) -> Disk:
    name, device, size = str(entry.get("name") or ""), str(entry.get("device") or ""), entry.get("size")
    if not DEVICE.fullmatch(device) or ".." in device or type(size) is not int or size < 0:
        raise LayoutRefused(f"the facts name a disk {shown(name)} with device {shown(device)} and size {shown(size)}")
    return Disk(
        name or device.removeprefix("/dev/"),
        device,
        size,
        type=word(entry, "type"),
        rotational=bool(entry.get("rotational")),
        model=word(entry, "model"),
        serial=word(entry, "serial"),
        wwn=word(entry, "wwn"),
        by_path=word(entry, "by_path"),
        removable=bool(entry.get("removable")),
        read_only=bool(entry.get("read_only")),
        boot_medium=bool(entry.get("boot_medium")),
        sector_size=int(entry.get("sector") or 512),
        holds=tuple(held(item) for item in entry.get("holds") or ()),
    )


def word(entry: Mapping[str, Any], key: str) -> str:
    return str(entry.get(key) or "").strip()


def held(entry: Mapping[str, Any]) -> Held:
    device = str(entry.get("device") or "")
    if not DEVICE.fullmatch(device) or ".." in device:
        raise LayoutRefused(f"the facts name a file system on the device {shown(device)}")
    return Held(
        device,
        int(entry.get("start") or 0),
        int(entry.get("size") or 0),
        type=word(entry, "type"),
        label=word(entry, "label"),
        partlabel=word(entry, "partlabel"),
        uuid=word(entry, "uuid").lower(),
        partuuid=word(entry, "partuuid").lower(),
    )


def fits(match: DiskMatch, found: Disk) -> bool:
    checks = (
        found.usable,
        match.type is None or match.type == found.type,
        match.min_size is None or found.size >= sizes.to_bytes(match.min_size),
        match.max_size is None or found.size <= sizes.to_bytes(match.max_size),
        match.model is None or fnmatchcase(found.model, match.model),
        match.serial is None or found.serial == match.serial,
        match.wwn is None or (found.wwn != "" and found.wwn.removeprefix("0x") == match.wwn.removeprefix("0x")),
        match.path is None or fnmatchcase(found.by_path, match.path.removeprefix("/dev/disk/by-path/")),
        match.rotational is None or match.rotational == found.rotational,
    )
    return all(checks)


def assign(layout: str, matches: Mapping[str, DiskMatch], found: Sequence[Disk]) -> dict[str, Disk]:
    """The one disk that each name means; where none or several fit, nothing is guessed."""
    assigned: dict[str, Disk] = {}
    for name, match in matches.items():
        if name in assigned:
            continue
        alike = [other for other, said in matches.items() if said == match]
        fitting = [disk for disk in found if fits(match, disk)]
        if len(fitting) != len(alike):
            raise LayoutRefused(mismatch(layout, alike, match, fitting, found), hint=advice(fitting))
        # Alike entries mean the same set of disks whatever the order; the slot makes the order the same every time.
        fitting.sort(key=lambda disk: (disk.by_path, disk.serial, disk.device))
        assigned.update(zip(alike, fitting, strict=True))
    refuse_shared(layout, assigned)
    refuse_twins(list(assigned.values()), found)
    return assigned


def refuse_twins(used: Sequence[Disk], found: Sequence[Disk]) -> None:
    """Two disks with one serial number are one disk on two paths, or a firmware's lie; either way it names neither."""
    for disk in used:
        for other in found:
            if disk.serial and disk.serial == other.serial and disk.device != other.device:
                raise LayoutRefused(f"the disks {disk} and {other} have the same serial number, so neither is certain")


def refuse_shared(layout: str, assigned: Mapping[str, Disk]) -> None:
    owners: dict[str, str] = {}
    for name, disk in assigned.items():
        if disk.device in owners:
            raise LayoutRefused(
                f"layout '{layout}' means the disk {disk} by both '{owners[disk.device]}' and '{name}'",
                hint="make their matches exclude each other, such as by type or size",
            )
        owners[disk.device] = name


def mismatch(
    layout: str, alike: Sequence[str], match: DiskMatch, fitting: Sequence[Disk], found: Sequence[Disk]
) -> str:
    names = " and ".join(f"'{name}'" for name in alike)
    wanted = ", ".join(f"{key} {value}" for key, value in match.model_dump(exclude_none=True).items()) or "any disk"
    means = f"{'disk' if len(alike) == 1 else 'disks'} {names} of layout '{layout}' ({wanted})"
    if fitting:
        fit = "fit" if len(alike) == 1 or len(fitting) > 1 else "fits"
        return f"{means}: {', '.join(str(disk) for disk in fitting)} {fit}, but exactly {len(alike)} must"
    there = ", ".join(described(disk) for disk in found) or "no disk at all"
    return f"{means}: no disk fits; this machine has {there}"


def described(disk: Disk) -> str:
    traits = [disk.type, disk.model]
    traits += [word for word, true in (("removable", disk.removable), ("read-only", disk.read_only)) if true]
    traits += ["boot medium"] if disk.boot_medium else []
    said = " ".join(trait for trait in traits if trait)
    return f"{disk}{f' [{said}]' if said else ''}"


def advice(fitting: Sequence[Disk]) -> str:
    if not fitting:
        return "change the layout's match, or choose another layout for this node"
    return "say more about the disk in the layout: serial, path, model or sizes tell disks apart"
