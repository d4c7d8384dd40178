"""The plan as the head node sent it, checked before anything of it is done. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import BadPlan

VERSION = 1
TARGET = "/target"
PATH = re.compile(r"/[A-Za-z0-9@._+~-][A-Za-z0-9@._+~/-]*")


@dataclass(frozen=True)
class PlannedDisk:
    """A disk that the plan may write, as it was when the plan was made."""

    name: str
    device: str
    serial: str
    wwn: str
    size: int


@dataclass(frozen=True)
class Step:
    name: str
    do: str
    argv: tuple[str, ...] = ()
    input: str | None = None
    destroys: tuple[str, ...] = ()
    url: str = ""
    sha256: str = ""
    size: int = 0
    target: str = TARGET


@dataclass(frozen=True)
class Plan:
    node: str
    deployment: str
    disks: tuple[PlannedDisk, ...]
    steps: tuple[Step, ...]
    # Whether UEFI's boot order is to begin with the network.
    network_first: bool = True


def parse_plan(document: Mapping[str, Any]) -> Plan:
    """The whole plan or none of it: one step that is not understood refuses all."""
    if document.get("version") != VERSION:
        raise BadPlan(f"the plan is of version {document.get('version')!r}, and this agent knows version {VERSION}")
    disks = tuple(parse_disk(disk) for disk in listed(document, "disks"))
    steps = tuple(parse_step(step, number) for number, step in enumerate(listed(document, "steps"), 1))
    network_first = document.get("network_first") is not False
    plan = Plan(str(document.get("node", "")), str(document.get("deployment", "")), disks, steps, network_first)
    refuse_strangers(plan)
    return plan


def parse_disk(document: Any) -> PlannedDisk:
    if not isinstance(document, dict):
        raise BadPlan("a disk of the plan is not a JSON object")
    device, size = document.get("device"), document.get("size")
    if not isinstance(device, str) or not device.startswith("/dev/") or ".." in device:
        raise BadPlan(f"the plan names the disk {device!r}, which is no device")
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise BadPlan(f"the plan says nothing of the size of {device}")
    return PlannedDisk(
        str(document.get("name", "")), device, str(document.get("serial") or ""), str(document.get("wwn") or ""), size
    )


def parse_step(document: Any, number: int) -> Step:
    if not isinstance(document, dict):
        raise BadPlan(f"step {number} of the plan is not a JSON object")
    do = document.get("do")
    name = str(document.get("name") or f"step {number}")
    if do == "check-disks":
        return Step(name, do)
    if do == "run":
        return Step(name, do, words(document, name), given(document, name), destroyed(document, name))
    if do == "chroot":
        return Step(name, do, words(document, name), given(document, name), target=target(document, name))
    if do == "overlay":
        return Step(name, do, target=target(document, name))
    if do == "image":
        return image_step(document, name)
    raise BadPlan(f"step {number} ({name}) is an unknown step: {do!r}")


def image_step(document: Mapping[str, Any], name: str) -> Step:
    url, sha256, size = document.get("url"), document.get("sha256"), document.get("size")
    # Only the head node itself is asked, over the connection that is already known.
    if not isinstance(url, str) or not PATH.fullmatch(url):
        raise BadPlan(f"{name}: the image's address {url!r} is not a path on the head node")
    if not isinstance(sha256, str) or len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
        raise BadPlan(f"{name}: the image's SHA-256 {sha256!r} is not one")
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise BadPlan(f"{name}: the image's size {size!r} is not a number of bytes")
    return Step(name, "image", url=url, sha256=sha256, size=size, target=target(document, name))


def words(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    argv = document.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise BadPlan(f"{name}: the command is not a list of words")
    if not argv[0]:
        raise BadPlan(f"{name}: the command has no program")
    return tuple(argv)


def given(document: Mapping[str, Any], name: str) -> str | None:
    text = document.get("input")
    if text is not None and not isinstance(text, str):
        raise BadPlan(f"{name}: the input is not text")
    return text


def destroyed(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    devices = document.get("destroys") or []
    if not isinstance(devices, list) or not all(isinstance(device, str) for device in devices):
        raise BadPlan(f"{name}: what it destroys is not a list of devices")
    return tuple(devices)


def target(document: Mapping[str, Any], name: str) -> str:
    """Everything is unpacked at one place; the ramdisk itself is never a target."""
    where = document.get("target", TARGET)
    if where != TARGET:
        raise BadPlan(f"{name}: the target {where!r} is not {TARGET}")
    return TARGET


def refuse_strangers(plan: Plan) -> None:
    """A step may destroy only what the plan lists, and only after its serial number was looked at again."""
    allowed = [disk.device for disk in plan.disks]
    checked = False
    for step in plan.steps:
        checked = checked or step.do == "check-disks"
        for device in step.destroys:
            if not any(belongs(device, disk) for disk in allowed):
                raise BadPlan(f"{step.name}: it would destroy {device}, which is not among the plan's disks")
            if not checked:
                raise BadPlan(f"{step.name}: it would destroy {device} before the disks were checked")


def belongs(device: str, disk: str) -> bool:
    """The disk itself, or one of its partitions: vda1 of vda, nvme0n1p1 of nvme0n1."""
    rest = device.removeprefix(disk) if device.startswith(disk) else "no"
    digits = rest.removeprefix("p") if disk[-1].isdigit() else rest
    return not rest or (digits.isdigit() and (rest != digits or not disk[-1].isdigit()))


def listed(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key)
    if not isinstance(value, list):
        raise BadPlan(f"the plan has no list of {key}")
    return value
