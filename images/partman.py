"""The same table of one disk for Debian's installer: a partman recipe, and commands that finish what it cannot say.

partman counts in millions of bytes from where free space begins, and then moves each end to the nearest MiB. Ours are
whole MiB, and half of its unit is less than half a MiB: so the nearest number of its units always ends where we want it
to, and the tables are the same to the byte. Labels, types and identifiers, which a recipe cannot say, are set by
`late_commands` at the end of the installation. What partman-auto cannot do at all is refused: several disks, RAID, LVM,
kept volumes, swap files and room left over go by image.
"""

import shlex
from collections.abc import Iterator

from headnode.errors import LayoutRefused
from images.layouts import Part, Resolved, Table
from images.plan import TYPES

MEGABYTE = 1_000_000
# The last partition takes what is left, with a priority that nothing else competes with.
EVERYTHING = -1
# Megabytes by which the sum of rounded sizes may be more than there are.
LEEWAY = 64
# Stands for the disk until the shell puts its name there; nothing in it needs quoting.
DISK = "@DISK@"
METHODS = {"esp": "efi", "bios-boot": "biosgrub", "swap": "swap"}
FILE_SYSTEMS = {"esp": "fat32", "bios-boot": "free", "swap": "linux-swap"}


def recipe(resolved: Resolved) -> str:
    """Text for `partman-auto/expert_recipe`, one partition per line."""
    table = only_table(resolved)
    begins = [free_from(table), *(part.start + part.size for part in table.parts)]
    entries = [
        entry(part, begin, last=part is table.parts[-1]) for part, begin in zip(table.parts, begins, strict=False)
    ]
    return " \\\n    ".join([f"{resolved.layout} ::", *entries]) + "\n"


def free_from(table: Table) -> int:
    """Where a GPT's own sectors end: a protective one, its header, and 16 KiB of entries."""
    sector = table.disk.sector_size
    return 2 * sector + max(16 << 10, sector)


def only_table(resolved: Resolved) -> Table:
    definition = resolved.definition
    reasons = [
        ("several disks", len(resolved.tables) > 1),
        ("RAID", bool(definition.raid1)),
        ("LVM", bool(definition.lvm)),
        ("kept volumes", any(volume.keep for volume in definition.volumes)),
        ("swap files", any(volume.type == "swapfile" for volume in definition.volumes)),
        ("room left over at the end of a disk", resolved.tables[0].parts[-1].volume.size != "rest"),
    ]
    for what, present in reasons:
        if present:
            raise LayoutRefused(
                f"Debian's installer cannot make {what}, which layout '{resolved.layout}' has",
                hint="use 'method: image' for these nodes, or another layout",
            )
    return resolved.tables[0]


def entry(part: Part, begin: int, *, last: bool) -> str:
    # The last gets all that is left, so its minimum only has to fit.
    size = max(1, round((part.start + part.size - begin) / MEGABYTE) - (LEEWAY if last else 0))
    # What ends before the disk does must not be enlarged; minimum, priority and maximum are the same then.
    numbers = f"{size} {size + 1 if last else size} {EVERYTHING if last else size}"
    kind = FILE_SYSTEMS.get(part.volume.type, part.volume.type)
    return " ".join([numbers, kind, "$iflabel{ gpt }", "$primary{ }", *attributes(part), "."])


def attributes(part: Part) -> Iterator[str]:
    volume = part.volume
    method = METHODS.get(volume.type, "format")
    yield f"method{{ {method} }}"
    if method in ("efi", "format"):
        yield "format{ }"
    if method == "swap":
        yield "format{ }"
    if method == "format":
        yield f"use_filesystem{{ }} filesystem{{ {volume.type} }} label{{ {volume.name} }}"
    if volume.mount and method == "format":
        yield f"mountpoint{{ {volume.mount} }}"
        yield from (f"options/{option}{{ {option} }}" for option in volume.options)


def late_commands(resolved: Resolved, variable: str | None = None) -> list[str]:
    """For `preseed/late_command`: the labels and identifiers by which later deployments know the partitions.

    `variable` is the shell's that holds the disk's name, where it is not what it was when the machine was inspected.
    """
    table = only_table(resolved)
    device = DISK if variable else table.disk.device
    commands = [["sfdisk", "--no-reread", "--no-tell-kernel", "--disk-id", device, table.id]]
    for part in table.parts:
        number = str(part.number)
        commands.append(["sfdisk", "--no-reread", "--no-tell-kernel", "--part-label", device, number, part.volume.name])
        commands.append(["sfdisk", "--no-reread", "--no-tell-kernel", "--part-uuid", device, number, part.id])
        kind = TYPES[part.volume.type]
        commands.append(["sfdisk", "--no-reread", "--no-tell-kernel", "--part-type", device, number, kind])
    lines = [shlex.join(["in-target", *command]) for command in commands]
    return [line.replace(DISK, f'"${variable}"') for line in lines] if variable else lines
