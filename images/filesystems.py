"""Making file systems and swap. Their identifiers are computed, so that /etc/fstab is known before they are made."""

from collections.abc import Iterator

from headnode.site import Layout, Volume
from images.layouts import Place, Resolved
from images.owner import Owner
from images.steps import TARGET, Step, run

# The longest label each kind can carry.
LABELS = {"ext4": 16, "xfs": 12, "swap": 15, "esp": 11}


def label(volume: Volume) -> str:
    text = volume.name.upper() if volume.type == "esp" else volume.name
    return text[: LABELS[volume.type]]


def kernel_type(place: Place) -> str:
    return "vfat" if place.volume.type == "esp" else place.volume.type


def make(place: Place, resolved: Resolved) -> Iterator[Step]:
    volume, device = place.volume, place.device
    if volume.type not in LABELS:
        return
    owner = resolved.owner
    uuid, words = owner.id("fs", volume.name), label(volume)
    argv = {
        "ext4": ("mkfs.ext4", "-q", "-F", "-L", words, "-U", uuid, device),
        "xfs": ("mkfs.xfs", "-q", "-f", "-L", words, "-m", f"uuid={uuid}", device),
        "esp": ("mkfs.vfat", "-F", "32", "-n", words, "-i", owner.fat_id(volume.name), device),
        "swap": ("mkswap", "--force", "--label", words, "--uuid", uuid, device),
    }[volume.type]
    yield run(f"make {volume.type} for {volume.mount or volume.name}", *argv, destroys=resolved.overwritten(place))


def make_swap_file(place: Place) -> Iterator[Step]:
    path = TARGET + place.device
    yield run(f"make room for {place.device}", "fallocate", "--length", str(place.size), path)
    yield run(f"close {place.device} to everybody", "chmod", "600", path)
    yield run(f"make swap in {place.device}", "mkswap", path)


def source(layout: Layout, volume: Volume, owner: Owner) -> str:
    """How the installed system finds a volume: by what the plan guarantees, and never by a device name.

    Partitions go by GPT identifier, because a kept or adopted file system has one of its own making inside; RAID sets
    and logical volumes have no such thing, and are never kept, so their file system's identifier is known.
    """
    if volume.on in layout.disks:
        return f"PARTUUID={owner.id('keep' if volume.keep else 'partition', volume.name)}"
    return f"UUID={owner.id('fs', volume.name)}"


def boot_volume(layout: Layout) -> Volume:
    """The volume that holds /boot."""
    by_mount = {volume.mount: volume for volume in layout.volumes}
    return by_mount.get("/boot") or by_mount["/"]


def fstab(layout: Layout, owner: Owner) -> list[tuple[str, str, str, str, int]]:
    """Lines for /etc/fstab: what, where, type, options, order of checking; parents before children."""
    mounted = sorted((v for v in layout.volumes if v.mount), key=lambda v: str(v.mount).rstrip("/").split("/"))
    lines = [fstab_line(layout, volume, owner) for volume in mounted]
    for volume in layout.volumes:
        if volume.type == "swap":
            lines.append((source(layout, volume, owner), "none", "swap", options(volume, "sw"), 0))
        if volume.type == "swapfile":
            holder = next(other for other in layout.volumes if other.name == volume.on)
            path = f"{str(holder.mount).rstrip('/')}/{volume.name}"
            lines.append((path, "none", "swap", options(volume, "sw"), 0))
    return lines


def fstab_line(layout: Layout, volume: Volume, owner: Owner) -> tuple[str, str, str, str, int]:
    standard = {"esp": "umask=0077", "ext4": "errors=remount-ro" if volume.mount == "/" else "defaults"}
    order = {"ext4": 1 if volume.mount == "/" else 2, "esp": 2}
    kind = "vfat" if volume.type == "esp" else volume.type
    words = options(volume, standard.get(volume.type, "defaults"))
    return source(layout, volume, owner), str(volume.mount), kind, words, order.get(volume.type, 0)


def options(volume: Volume, standard: str) -> str:
    if not volume.options:
        return standard
    return ",".join([standard, *volume.options] if standard != "defaults" else volume.options)
