"""The second look at an autoinstall document: what a schema cannot say. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from headnode import fields
from headnode.errors import HeadnodeError
from headnode.sizes import MIB

REFERENCES = ("device", "volume", "volgroup")
# Of a GPT's copy at the end of a disk; its header takes a sector more.
ENTRIES = 16 << 10


def refuse_wrong(document: Mapping[str, Any], facts: Mapping[str, Any], node: str) -> None:
    if found := list(problems(document, facts)):
        raise HeadnodeError(f"the autoinstall document of {node} would fail: {'; '.join(found)}",
                            hint="this is a bug in Headnode")  # fmt: skip


def problems(document: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[str]:
    """Storage references resolve, sizes fit the node's disks, something boots, and people's names are valid."""
    storage = document.get("storage")
    actions: list[dict[str, Any]] = storage.get("config", []) if isinstance(storage, Mapping) else []
    if not actions:
        yield "there is no storage configuration"
        return
    yield from reference_problems(actions)
    yield from size_problems(actions, facts)
    yield from boot_problems(actions, str(facts.get("firmware")))
    yield from user_problems(document)


def reference_problems(actions: list[dict[str, Any]]) -> Iterator[str]:
    """curtin makes things in the order given: what is named must have been made before, and once."""
    made: set[str] = set()
    for action in actions:
        wanted = [action[key] for key in REFERENCES if key in action] + list(action.get("devices", ()))
        yield from (f"{action['id']} needs {name}, which is not made before it" for name in wanted if name not in made)
        if action["id"] in made:
            yield f"{action['id']} is made twice"
        made.add(action["id"])


def size_problems(actions: list[dict[str, Any]], facts: Mapping[str, Any]) -> Iterator[str]:
    known = {
        str(disk.get(key)): disk for disk in facts.get("disks", ()) for key in ("serial", "device") if disk.get(key)
    }
    for disk in (action for action in actions if action["type"] == "disk"):
        real = known.get(str(disk.get("serial") or disk.get("path")))
        if real is None:
            yield f"{disk['id']} is a disk that this node does not have"
            continue
        parts = sorted((a for a in actions if a["type"] == "partition" and a["device"] == disk["id"]),
                       key=lambda part: int(part["offset"]))  # fmt: skip
        end = MIB
        for part in parts:
            if part["offset"] < end:
                yield f"{part['id']} begins at {part['offset']}, before the end of what is in front of it"
            end = part["offset"] + part["size"]
        if end > int(real["size"]) - ENTRIES - int(real.get("sector") or 512):
            yield f"{disk['id']} needs {end} bytes and has {real['size']}"


def boot_problems(actions: list[dict[str, Any]], firmware: str) -> Iterator[str]:
    """By UEFI a partition is the boot loader's place, by BIOS a whole disk; one there must be, none of the other."""
    disks = [a["id"] for a in actions if a["type"] == "disk" and a.get("grub_device")]
    partitions = [a["id"] for a in actions if a["type"] == "partition" and a.get("grub_device")]
    wanted, other, what = (partitions, disks, "partition") if firmware == "uefi" else (disks, partitions, "disk")
    if not wanted:
        yield f"no {what} is the place of the boot loader"
    if other:
        yield f"{other[0]} is the place of a boot loader that this node, which starts by {firmware}, does not use"
    mounts = [a["path"] for a in actions if a["type"] == "mount" and a["path"] != "none"]
    if mounts.count("/") != 1:
        yield "the root file system is mounted nowhere, or twice"
    yield from (f"{path} is mounted twice" for path in sorted({p for p in mounts if mounts.count(p) > 1}))


def user_problems(document: Mapping[str, Any]) -> Iterator[str]:
    people = document.get("user-data")
    if not isinstance(people, Mapping) and "identity" not in document:
        yield "neither identity nor user-data says who may log in"
    for user in people.get("users", ()) if isinstance(people, Mapping) else ():
        name = str(user.get("name") if isinstance(user, Mapping) else user)
        if not fields.LABEL.fullmatch(name):
            yield f"'{name}' is no name for a user"
