"""What a plan would destroy, and whether somebody has said that it may.

A disk is ours to write when it is empty or holds only what we made for this node. Anything else needs consent that
names the disk by its serial number: a device name would mean another disk after the next boot.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from headnode.errors import LayoutRefused, shown
from headnode.site import Layout, Volume
from images.disks import Disk, Held
from images.owner import Owner

# A partition table by itself holds nobody's data.
TABLES = ("", "gpt", "dos", "PMBR")


def foreign(disk: Disk, owner: Owner) -> list[Held]:
    """Whatever is on a disk that we did not make for this node."""
    partitions = [held for held in disk.holds if is_partition(disk, held)]
    strange = [held for held in partitions if owner.purpose(held) is None]
    for held in disk.holds:
        if held.device == disk.device:
            strange += [held] if held.type not in TABLES else []
        elif held not in partitions and (strange or not partitions):
            # Something inside a partition (a logical volume, a RAID set) is as much ours as the partition is.
            strange.append(held)
    return strange


def is_partition(disk: Disk, held: Held) -> bool:
    return disk.number(held.device) is not None or bool(held.partuuid and held.device != disk.device)


def refuse_without_consent(
    disk: Disk, name: str, layout: Layout, owner: Owner, consent: AbstractSet[str], deployed: Mapping[str, str]
) -> None:
    """Refuse to write a disk that holds what nobody has given up."""
    if disk.serial and disk.serial in consent:
        return
    means = f"disk '{name}' is {disk}"
    before = deployed.get(name)
    if before and before != disk.serial:
        refuse(disk, f"{means}, but at the last deployment it was the disk with serial {shown(before)}")
    if strange := foreign(disk, owner):
        things = ", ".join(str(held) for held in strange)
        refuse(disk, f"{means}, and it holds what is not this node's: {things}")
    keeps = {volume.name for volume in layout.volumes if volume.keep and volume.on == name}
    if lost := [h for h in disk.holds if owner.purpose(h) == "keep" and h.partlabel not in keeps]:
        things = ", ".join(str(held) for held in lost)
        refuse(disk, f"{means}, and it holds a kept volume that the layout does not keep there: {things}")


def refuse(disk: Disk, sentence: str) -> None:
    if disk.serial:
        hint = f"if it may be overwritten, deploy with --erase {disk.serial}"
    else:
        hint = f"consent names a serial number and this disk has none; empty it by hand: wipefs --all {disk.device}"
    raise LayoutRefused(sentence, hint=hint)


def refuse_duplicates(found: Sequence[Disk], used: Sequence[Disk], owner: Owner) -> None:
    """Partitions of this node on a disk that the layout leaves alone would share identifiers with the new ones."""
    for disk in found:
        ours = [held for held in disk.holds if owner.purpose(held)]
        if ours and disk.device not in [other.device for other in used]:
            raise LayoutRefused(
                f"{disk} is not in the layout but holds volumes of this node ({', '.join(str(h) for h in ours)}), "
                f"and the machine could start from either",
                hint=f"empty it in the rescue system (wipefs --all {disk.device} and its partitions) or take it out",
            )


def could_be(held: Held, volume: Volume, owner: Owner) -> bool:
    """Whether a partition is, by its label, this kept volume and was ever finished."""
    made_for = owner.purpose(held)
    if made_for is None:
        return volume.name in (held.partlabel, held.label)
    # Ours but not kept, and empty: a plan was cut off before it was formatted.
    unfinished = made_for == "fresh" or (made_for == "partition" and not held.type)
    return held.partlabel == volume.name and not unfinished


def find_kept(disk: Disk, volume: Volume, owner: Owner, consent: AbstractSet[str]) -> Held | None:
    """The partition that this kept volume is now, or None when it has to be made."""
    candidates = [held for held in disk.holds if is_partition(disk, held) and could_be(held, volume, owner)]
    if len(candidates) > 1:
        things = ", ".join(str(held) for held in candidates)
        raise LayoutRefused(f"{disk} holds more than one volume that could be the kept '{volume.name}': {things}")
    if not candidates:
        return None
    (held,) = candidates
    if not held.type and disk.serial in consent:
        return None
    if held.type != volume.type:
        raise LayoutRefused(
            f"the kept '{volume.name}' on {disk} is {held}, and the layout says {volume.type}; it was not touched",
            hint="change its type in the layout, or give the new volume another name and consent to the disk",
        )
    return held
