"""Disks: what lsblk says of them as facts, and whether they still are what a plan was made for. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import StepFailed
from .plan import PlannedDisk

COLUMNS = (
    "NAME,PATH,TYPE,SIZE,ROTA,RM,RO,MODEL,SERIAL,WWN,TRAN,START,FSTYPE,LABEL,PARTLABEL,UUID,PARTUUID,LOG-SEC,PTTYPE"
)
LSBLK = ("lsblk", "--json", "--bytes", "--output", COLUMNS)
SECTOR = 512


def parse_lsblk(text: str, by_path: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every disk with what it holds; `by_path` maps a kernel name to its name under /dev/disk/by-path."""
    try:
        devices = json.loads(text)["blockdevices"]
    except (ValueError, KeyError, TypeError):
        return []
    found = (device for device in devices or () if isinstance(device, dict) and is_disk(device))
    return [disk(device, by_path.get(str(device.get("name")), "")) for device in found]


def is_disk(device: Mapping[str, Any]) -> bool:
    """Not loops, memory disks and optical drives; not card readers without a card."""
    name = str(device.get("name", ""))
    return (
        device.get("type") == "disk"
        and number(device, "size") > 0
        and not name.startswith(("ram", "zram", "fd", "nbd"))
    )


def disk(device: Mapping[str, Any], by_path: str) -> dict[str, Any]:
    rotational = bool(device.get("rota"))
    return {
        "name": text_of(device, "name"),
        "device": text_of(device, "path"),
        "size": number(device, "size"),
        "type": kind(device, rotational),
        "rotational": rotational,
        "model": text_of(device, "model"),
        "serial": text_of(device, "serial"),
        "wwn": text_of(device, "wwn"),
        "by_path": by_path,
        "removable": bool(device.get("rm")),
        "read_only": bool(device.get("ro")),
        "sector": number(device, "log-sec") or SECTOR,
        "table": text_of(device, "pttype"),
        "holds": holds(device),
    }


def kind(device: Mapping[str, Any], rotational: bool) -> str:
    if device.get("tran") == "nvme" or str(device.get("name", "")).startswith("nvme"):
        return "nvme"
    return "hdd" if rotational else "ssd"


def holds(device: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Partitions, known or not, and a file system on the whole disk."""
    found = [held(device)] if text_of(device, "fstype") else []
    for child in device.get("children") or ():
        if isinstance(child, dict) and child.get("type") == "part":
            found.append(held(child))
    return found


def held(device: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "device": text_of(device, "path"),
        # The kernel counts in sectors of 512 bytes whatever the disk's own are.
        "start": number(device, "start") * SECTOR,
        "size": number(device, "size"),
        "type": text_of(device, "fstype"),
        "label": text_of(device, "label"),
        "partlabel": text_of(device, "partlabel"),
        "uuid": text_of(device, "uuid"),
        "partuuid": text_of(device, "partuuid"),
    }


def text_of(device: Mapping[str, Any], key: str) -> str:
    value = device.get(key)
    return "".join(c for c in str(value) if c.isprintable()).strip() if value is not None else ""


def number(device: Mapping[str, Any], key: str) -> int:
    value = device.get(key)
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() else 0


def check(planned: Iterable[PlannedDisk], facts: Iterable[Mapping[str, Any]]) -> None:
    """Whether every disk of the plan is still the one that was meant; names can change from boot to boot."""
    present = {str(fact["device"]): fact for fact in facts}
    for wanted in planned:
        found = present.get(wanted.device)
        if found is None:
            raise StepFailed(f"the disk {wanted.device} (serial {wanted.serial or 'unknown'}) is not there any more")
        for what, expected, real in (
            ("serial number", wanted.serial, found["serial"]),
            ("WWN", wanted.wwn, found["wwn"]),
            ("size", wanted.size, found["size"]),
        ):
            if expected and expected != real:
                raise StepFailed(
                    f"{wanted.device} is not the disk the plan was made for: its {what} is {real or 'unknown'}, "
                    f"and {expected} was expected; nothing was written"
                )
        if found["read_only"]:
            raise StepFailed(
                f"{wanted.device} (serial {wanted.serial or 'unknown'}) cannot be written: it is read-only"
            )
