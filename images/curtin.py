"""The same table of disks for Ubuntu's autoinstall: curtin's storage configuration, version 2.

Offsets, numbers and identifiers are given, so curtin has nothing to decide and the result is that of our own plan.
"""

from collections.abc import Iterator
from typing import Any

from images.bootloader import bios_disks
from images.filesystems import label, options
from images.layouts import Group, Part, Place, Resolved, Table
from images.plan import TYPES

Action = dict[str, Any]

FLAGS = {"esp": "boot", "bios-boot": "bios_grub", "swap": "swap", "raid": "raid", "lvm": "lvm"}
FORMATS = {"esp": "fat32", "ext4": "ext4", "xfs": "xfs", "swap": "swap"}


def storage(resolved: Resolved) -> dict[str, Any]:
    """The `storage` block of an autoinstall document."""
    # swap: size 0, because subiquity otherwise adds a swap file that nobody asked for.
    return {"version": 2, "swap": {"size": 0}, "config": config(resolved)}


def config(resolved: Resolved) -> list[Action]:
    actions: list[Action] = []
    for table in resolved.tables:
        actions.append(disk(table, grub=table.disk.device in bios_disks(resolved)))
        actions += [partition(table, part) for part in sorted(table.parts, key=lambda part: part.number)]
    for array in resolved.arrays:
        members = [volume_id(name) for name in resolved.definition.raid1[array.name]]
        actions.append({"id": f"raid-{array.name}", "type": "raid", "name": array.name, "raidlevel": 1,
                        "metadata": "1.2", "devices": members})  # fmt: skip
    for group in resolved.groups:
        actions += group_actions(group, resolved)
    for place in resolved.places:
        actions += file_system(place, resolved)
    return actions


def disk(table: Table, grub: bool) -> Action:
    """By serial number where there is one: a path may be another disk's at the next boot."""
    found = table.disk
    by = {"serial": found.serial} if found.serial else {"path": found.device}
    kept = any(part.kept for part in table.parts)
    wipe = {"preserve": True} if kept else {"wipe": "superblock-recursive", "preserve": False}
    return {"id": f"disk-{table.name}", "type": "disk", **by, "ptable": "gpt", **wipe, "grub_device": grub}


def partition(table: Table, part: Part) -> Action:
    action: Action = {
        "id": volume_id(part.volume.name),
        "type": "partition",
        "device": f"disk-{table.name}",
        "number": part.number,
        "offset": part.start,
        "size": part.size,
        "uuid": part.id,
        "partition_name": part.volume.name,
        "partition_type": TYPES[part.volume.type].lower(),
        "preserve": part.kept is not None,
        "grub_device": part.volume.type == "esp",
    }
    if flag := FLAGS.get(part.volume.type):
        action["flag"] = flag
    return action if part.kept else {**action, "wipe": "superblock"}


def group_actions(group: Group, resolved: Resolved) -> Iterator[Action]:
    devices = [carrier(member, resolved) for member in resolved.definition.lvm[group.name]]
    yield {"id": f"vg-{group.name}", "type": "lvm_volgroup", "name": group.name, "devices": devices}
    for place in resolved.places:
        if place.volume.on == group.name and place.volume.type != "swapfile":
            yield {"id": volume_id(place.volume.name), "type": "lvm_partition", "volgroup": f"vg-{group.name}",
                   "name": place.volume.name, "size": f"{place.size}B"}  # fmt: skip


def carrier(name: str, resolved: Resolved) -> str:
    """The action that makes the device a volume is: its partition, or the RAID set it fills."""
    on = resolved.place(name).volume.on
    return f"raid-{on}" if on in resolved.definition.raid1 else volume_id(name)


def file_system(place: Place, resolved: Resolved) -> Iterator[Action]:
    volume = place.volume
    if volume.type not in FORMATS:
        return
    made: Action = {"id": f"fs-{volume.name}", "type": "format", "volume": carrier(volume.name, resolved),
                    "fstype": FORMATS[volume.type], "label": label(volume), "preserve": place.kept}  # fmt: skip
    if volume.type != "esp":
        made["uuid"] = resolved.owner.id("fs", volume.name)
    yield {key: value for key, value in made.items() if not (place.kept and key in ("label", "uuid"))}
    if volume.mount or volume.type == "swap":
        yield {"id": f"mount-{volume.name}", "type": "mount", "device": f"fs-{volume.name}",
               "path": volume.mount or "none", "options": options(volume, "defaults")}  # fmt: skip


def volume_id(name: str) -> str:
    return f"volume-{name}"
