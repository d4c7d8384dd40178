"""The deploy plan: everything our agent does to a node's disks, as exact commands, computed on the head node.

A plan can be run again after a power cut at any point: it first stops what is left of the last run, then makes
everything anew except kept volumes.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from headnode.errors import LayoutRefused
from headnode.site import Layout
from images import bootloader, filesystems
from images.layouts import EXTENT, RAID_OFFSET, Array, Group, Part, Place, Resolved, Table, resolve
from images.owner import Owner
from images.steps import TARGET, Step, run

TYPES = {
    "esp": "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
    "bios-boot": "21686148-6449-6E6F-744E-656564454649",
    "ext4": "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
    "xfs": "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
    "swap": "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F",
    "raid": "A19D880F-05FC-4D3B-A006-743F0F84911E",
    "lvm": "E6D6D379-F507-44C2-A23C-238F2A3DF928",
}


@dataclass(frozen=True)
class Image:
    name: str
    url: str
    sha256: str
    size: int
    unpacked_size: int = 0


def deploy_plan(
    layout_name: str,
    layout: Layout,
    facts: Mapping[str, Any],
    owner: Owner,
    *,
    image: Image,
    settings: Mapping[str, Any],
    deployment: int | str,
    consent: AbstractSet[str] = frozenset(),
    deployed: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The plan as JSON data; raises LayoutRefused with one sentence when it cannot be made without guessing."""
    resolved = resolve(layout_name, layout, facts, owner, consent=consent, deployed=deployed)
    refuse_small(resolved, image)
    loader = bootloader.BootLoader.of(resolved, facts, settings)
    steps = [
        {"name": "check that the disks are the ones this plan was made for", "do": "check-disks"},
        *disk_steps(resolved),
        *mount_steps(resolved),
        {"name": f"unpack image {image.name}", "do": "image", "url": image.url, "sha256": image.sha256,
         "size": image.size, "target": TARGET},
        *after_image(resolved),
        {"name": "write this node's own files", "do": "overlay", "target": TARGET},
        *loader.steps(),
        run("unmount", "umount", "--recursive", TARGET),
        run("write everything out", "sync"),
    ]  # fmt: skip
    return {
        "version": 1,
        "node": owner.node,
        "deployment": deployment,
        "image": dict(vars(image)),
        "disks": [disk_entry(table) for table in resolved.tables],
        "steps": steps,
    }


def disk_entry(table: Table) -> dict[str, Any]:
    disk = table.disk
    return {"name": table.name, "device": disk.device, "serial": disk.serial, "wwn": disk.wwn, "size": disk.size}


def refuse_small(resolved: Resolved, image: Image) -> None:
    """The image and a tenth more must fit on what it is unpacked to; said before the disks are written, not after."""
    room = sum(place.size for place in resolved.mounts if not place.kept and place.volume.type != "esp")
    needed = image.unpacked_size * 11 // 10
    if needed > room:
        raise LayoutRefused(
            f"image {image.name} needs {needed} bytes unpacked, and the volumes of layout '{resolved.layout}' "
            f"have {room} on this machine"
        )


def disk_steps(resolved: Resolved) -> Iterator[Step]:
    """From whatever is there to formatted volumes."""
    yield from stop_steps(resolved)
    for table in resolved.tables:
        yield partition_step(table)
    yield run("wait for the partitions to appear", "udevadm", "settle")
    # Where a new partition begins at an old one's place, udev has just assembled the old set once more.
    yield from stop_steps(resolved)
    for table in resolved.tables:
        yield from wipe_step(table)
    for array in resolved.arrays:
        yield from array_steps(array)
    for group in resolved.groups:
        yield from group_steps(group, resolved)
    for place in resolved.places:
        if not place.kept:
            yield from filesystems.make(place, resolved)
    for table in resolved.tables:
        yield from seal_steps(table, resolved)


def stop_steps(resolved: Resolved) -> Iterator[Step]:
    """RAID sets and volume groups that the kernel assembled from an earlier life hold their disks busy."""
    held = {held.type for table in resolved.tables for held in table.disk.holds}
    if resolved.groups or "LVM2_member" in held:
        yield run("stop volume groups of an earlier life", "vgchange", "--activate", "n")
    if resolved.arrays or "linux_raid_member" in held:
        yield run("stop RAID sets of an earlier life", "mdadm", "--stop", "--scan")


def partition_step(table: Table) -> Step:
    kept = [part.volume.name for part in table.parts if part.kept]
    name = f"partition {table.disk}" + (f", leaving {' and '.join(kept)} as it is" if kept else "")
    # Signatures inside partitions are wiped by a step of their own: sfdisk would wipe those of kept ones too.
    argv = ("sfdisk", "--wipe", "always", "--wipe-partitions", "never", "--no-reread", table.disk.device)
    return run(name, *argv, input=sfdisk_script(table), destroys=[table.disk.device])


def sfdisk_script(table: Table) -> str:
    lines = ["label: gpt", f"label-id: {table.id}", "unit: sectors", ""]
    lines += [sfdisk_line(table, part) for part in sorted(table.parts, key=lambda part: part.number)]
    return "\n".join(lines) + "\n"


def sfdisk_line(table: Table, part: Part) -> str:
    sector = table.disk.sector_size
    return (
        f"{part.number} : start={part.start // sector}, size={part.size // sector}, type={TYPES[part.volume.type]}, "
        f'uuid={part.id}, name="{part.volume.name}"'
    )


def wipe_step(table: Table) -> Iterator[Step]:
    devices = [part.device for part in sorted(table.parts, key=lambda part: part.number) if not part.kept]
    if devices:
        yield run("forget old signatures", "wipefs", "--all", "--force", *devices, destroys=[table.disk.device])


def array_steps(array: Array) -> Iterator[Step]:
    members = array.members
    argv = [
        "mdadm", "--create", array.device, "--run", "--level=1", f"--raid-devices={len(members)}", "--metadata=1.2",
        f"--name={array.name}", "--homehost=any", f"--uuid={md_uuid(array.id)}", "--bitmap=internal",
        f"--data-offset={RAID_OFFSET // 1024}K", f"--size={array.size // 1024}K", *members,
    ]  # fmt: skip
    yield run(f"make RAID set {array.name}", *argv, destroys=members)


def md_uuid(uuid: str) -> str:
    digits = uuid.replace("-", "")
    return ":".join(digits[i : i + 8] for i in range(0, 32, 8))


def group_steps(group: Group, resolved: Resolved) -> Iterator[Step]:
    prepare = ("pvcreate", "--yes", "--force", "--force", "--dataalignment", "1m")
    yield run(
        f"prepare disks of volume group {group.name}", *prepare, *group.devices, destroys=resolved.backing(group.name)
    )
    extent = f"{EXTENT // 1024}k"
    yield run(
        f"make volume group {group.name}", "vgcreate", "--yes", "--physicalextentsize", extent, group.name,
        *group.devices,
    )  # fmt: skip
    for place in resolved.places:
        if place.volume.on == group.name and place.volume.type != "swapfile":
            yield run(
                f"make volume {place.volume.name}", "lvcreate", "--yes", "--wipesignatures", "y",
                "--extents", str(place.size // EXTENT), "--name", place.volume.name, group.name,
            )  # fmt: skip


def seal_steps(table: Table, resolved: Resolved) -> Iterator[Step]:
    """A new kept volume gets its final identifier only once its file system is whole (see images/owner.py)."""
    for part in table.parts:
        if part.volume.keep and not part.kept:
            final = resolved.owner.id("keep", part.volume.name)
            argv = ("sfdisk", "--no-reread", "--no-tell-kernel", "--part-uuid", table.disk.device)
            yield run(f"mark {part.volume.name} as kept from now on", *argv, str(part.number), final)


def mount_steps(resolved: Resolved) -> Iterator[Step]:
    """Kept volumes stay unmounted: what is not mounted cannot be written by mistake."""
    for place in resolved.mounts:
        if not place.kept and not place.volume.keep:
            target = under_target(place)
            argv = ("mount", "--mkdir", "--types", filesystems.kernel_type(place), place.device, target)
            yield run(f"mount {place.volume.mount}", *argv)
    for place in resolved.places:
        if place.volume.type == "swapfile":
            yield from filesystems.make_swap_file(place)


def under_target(place: Place) -> str:
    return (TARGET + str(place.volume.mount)).rstrip("/")


def after_image(resolved: Resolved) -> Iterator[Step]:
    kept = [under_target(place) for place in resolved.mounts if place.volume.keep]
    if kept:
        yield run("make mount points of kept volumes", "mkdir", "--parents", *kept)
    # A new file system's root is 755, and the image's own /tmp is hidden below it.
    open_to_all = [under_target(p) for p in resolved.mounts if p.volume.mount in ("/tmp", "/var/tmp")]  # noqa: S108
    if open_to_all:
        yield run("let everybody write temporary files", "chmod", "1777", *open_to_all)
