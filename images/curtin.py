"""The same table of disks for Ubuntu's autoinstall: curtin's storage configuration, version 2.

Offsets, numbers and identifiers are given, so curtin has nothing to decide and the result is that of our own plan.
"""

from collections.abc import Iterator
from typing import Any

from headnode.errors import LayoutRefused
from images.bootloader import bios_disks
from images.filesystems import label, options
from images.layouts import Group, Part, Place, Resolved, Table
from images.plan import TYPES

Action = dict[str, Any]

FLAGS = {"esp": "boot", "bios-boot": "bios_grub", "swap": "swap", "raid": "raid", "lvm": "lvm"}
FORMATS = {"esp": "fat32", "ext4": "ext4", "xfs": "xfs", "swap": "swap"}


def storage(resolved: Resolved, firmware: str | None = None) -> dict[str, Any]:
    """The `storage` block of an autoinstall document."""
    # swap: size 0, because subiquity otherwise adds a swap file that nobody asked for.
    return {"version": 2, "swap": {"size": 0}, "config": config(resolved, firmware)}


def config(resolved: Resolved, firmware: str | None = None) -> list[Action]:
    """curtin installs GRUB on whatever is marked for it, so only what this firmware starts from is."""
    bios = () if firmware == "uefi" else bios_disks(resolved)
    actions: list[Action] = []
    for table in resolved.tables:
        actions.append(disk(table, grub=table.disk.device in bios))
        parts = sorted(table.parts, key=lambda part: part.number)
        actions += [partition(table, part, resolved, esp=firmware != "bios") for part in parts]
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
    """By serial number: a path may be another disk's at the next boot."""
    found = table.disk
    if not found.serial:
        raise LayoutRefused(
            f"{found} has no serial number by which Ubuntu's installer could know it again",
            hint="use 'method: image' for this node",
        )
    kept = any(part.kept for part in table.parts)
    wipe = {"preserve": True} if kept else {"wipe": "superblock-recursive", "preserve": False}
    return {
        "id": f"disk-{table.name}",
        "type": "disk",
        "serial": found.serial,
        "ptable": "gpt",
        **wipe,
        "grub_device": grub,
    }


def partition(table: Table, part: Part, resolved: Resolved, *, esp: bool = True) -> Action:
    action: Action = {
        "id": volume_id(part.volume.name),
        "type": "partition",
        "device": f"disk-{table.name}",
        "number": part.number,
        "offset": part.start,
        "size": part.size,
        "uuid": final_id(part, resolved),
        "partition_name": part.volume.name,
        "partition_type": TYPES[part.volume.type].lower(),
        "preserve": part.kept is not None,
        "grub_device": esp and part.volume.type == "esp",
    }
    if flag := FLAGS.get(part.volume.type):
        action["flag"] = flag
    return action if part.kept else {**action, "wipe": "superblock"}


def final_id(part: Part, resolved: Resolved) -> str:
    """Nothing seals a new kept volume here after mkfs, so it is marked at once.

    Cut off half-way, it is then refused until somebody consents; left as `fresh`, it would be formatted next time.
    """
    return resolved.owner.id("keep", part.volume.name) if part.volume.keep else part.id


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
