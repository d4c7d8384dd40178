"""What a layout makes of a machine's disks, in words, for whoever looks before a deployment. Pure."""

from collections.abc import Iterator

from headnode import sizes
from images.consent import TABLES
from images.layouts import Place, Resolved, Table


def disks(resolved: Resolved) -> Iterator[str]:
    """Every disk with its serial number, what it loses, and what is on it afterwards."""
    for table in resolved.tables:
        disk = table.disk
        yield f"disk {table.name}: {disk.device}, serial {disk.serial or '-'}, {sizes.shown(disk.size)}"
        if lost := erased(table):
            yield f"  erases {', '.join(lost)}"
        for part in table.parts:
            yield f"  {part.number} {volume(resolved.place(part.volume.name))}"
    for array in resolved.arrays:
        yield f"RAID 1 {array.name}: {' and '.join(array.members)}"
        yield from carried(resolved, array.name)
    for group in resolved.groups:
        yield f"volume group {group.name}: {' and '.join(group.devices)}"
        yield from carried(resolved, group.name)
    for place in resolved.places:
        if place.volume.type == "swapfile":
            yield f"swap file {place.device}: {sizes.shown(place.size)}"


def erased(table: Table) -> list[str]:
    """An old partition table alone is no loss; a partition is one, whatever is in it."""
    kept = {part.kept.device for part in table.parts if part.kept}
    lost = (held for held in table.disk.holds if held.device not in kept)
    return [str(held) for held in lost if held.device != table.disk.device or held.type not in TABLES]


def carried(resolved: Resolved, home: str) -> Iterator[str]:
    for place in resolved.places:
        if place.volume.on == home and place.volume.type != "swapfile":
            yield f"  {volume(place)}"


def volume(place: Place) -> str:
    words = [place.volume.type, *([place.volume.mount] if place.volume.mount else [])]
    kept = ", kept as it is" if place.kept else ""
    return f"{place.volume.name}: {sizes.shown(place.size)} {' '.join(words)}{kept}"
