"""The same table of one disk for Debian's installer: a partman recipe, and commands that finish what it cannot say.

partman counts in millions of bytes and knows neither partition labels nor identifiers. So sizes agree to within one of
its units (never above ours), and labels and identifiers are set by `late_commands` at the end of the installation.
What partman-auto cannot do at all is refused: several disks, RAID, LVM, kept volumes and swap files go by image.
"""

import shlex
from collections.abc import Iterator

from headnode.errors import LayoutRefused
from images.layouts import Part, Resolved, Table

MEGABYTE = 1_000_000
# The last partition takes what is left, with a priority that nothing else competes with.
EVERYTHING = -1
METHODS = {"esp": "efi", "bios-boot": "biosgrub", "swap": "swap"}
FILE_SYSTEMS = {"esp": "fat32", "bios-boot": "free", "swap": "linux-swap"}


def recipe(resolved: Resolved) -> str:
    """Text for `partman-auto/expert_recipe`, one partition per line."""
    table = only_table(resolved)
    lines = [" \\\n    ".join([f"{resolved.layout} ::", *(entry(part, table) for part in table.parts)])]
    return "\n".join(lines) + "\n"


def only_table(resolved: Resolved) -> Table:
    definition = resolved.definition
    reasons = [
        ("several disks", len(resolved.tables) > 1),
        ("RAID", bool(definition.raid1)),
        ("LVM", bool(definition.lvm)),
        ("kept volumes", any(volume.keep for volume in definition.volumes)),
        ("swap files", any(volume.type == "swapfile" for volume in definition.volumes)),
    ]
    for what, present in reasons:
        if present:
            raise LayoutRefused(
                f"Debian's installer cannot make {what}, which layout '{resolved.layout}' has",
                hint="use 'method: image' for these nodes, or another layout",
            )
    return resolved.tables[0]


def entry(part: Part, table: Table) -> str:
    size = part.size // MEGABYTE
    last = part is table.parts[-1]
    # What ends before the disk does must not be enlarged; minimum, priority and maximum are the same then.
    grows = last and part.volume.size == "rest"
    numbers = f"{size} {size + 1 if grows else size} {EVERYTHING if grows else size}"
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


def late_commands(resolved: Resolved) -> list[str]:
    """For `preseed/late_command`: the labels and identifiers by which later deployments know the partitions."""
    table = only_table(resolved)
    device = table.disk.device
    commands = [["sfdisk", "--no-reread", "--no-tell-kernel", "--disk-id", device, table.id]]
    for part in table.parts:
        number = str(part.number)
        commands.append(["sfdisk", "--no-reread", "--no-tell-kernel", "--part-label", device, number, part.volume.name])
        commands.append(["sfdisk", "--no-reread", "--no-tell-kernel", "--part-uuid", device, number, part.id])
    return [shlex.join(["in-target", *command]) for command in commands]
