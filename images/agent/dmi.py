"""dmidecode's words as facts: memory modules, and what the machine is. Pure."""

import re
from collections.abc import Iterator, Mapping

HANDLE = re.compile(r"^Handle 0x[0-9A-Fa-f]+, DMI type (\d+), \d+ bytes")
SIZE = re.compile(r"^(\d+) (bytes|kB|MB|GB|TB)$")
UNITS = {"bytes": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
MEMORY_DEVICE = 17
# What vendors write when they have nothing to say.
NOTHING = frozenset({
    "", "not specified", "unknown", "none", "to be filled by o.e.m.", "default string", "no dimm",
    "system serial number", "0123456789", "n/a", "not provided",
})  # fmt: skip


def said(value: str) -> str:
    """A value, or nothing when it is one of the usual fillers."""
    clean = "".join(c for c in value if c.isprintable()).strip()
    return "" if clean.lower() in NOTHING else clean


def records(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Every DMI record as its type and its plain fields; lists and broken lines are passed over."""
    kind: int | None = None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if found := HANDLE.match(line):
            if kind is not None:
                yield kind, fields
            kind, fields = int(found[1]), {}
        elif kind is not None and line.startswith("\t") and not line.startswith("\t\t") and ":" in line:
            key, _, value = line.strip().partition(":")
            fields.setdefault(key, value.strip())
    if kind is not None:
        yield kind, fields


def dimms(text: str) -> list[dict[str, object]]:
    """The memory modules that are there; empty slots are left out."""
    return [dimm(fields) for kind, fields in records(text) if kind == MEMORY_DEVICE and size_of(fields) > 0]


def dimm(fields: Mapping[str, str]) -> dict[str, object]:
    speed = re.match(r"\d+", fields.get("Configured Memory Speed", "") or fields.get("Speed", ""))
    return {
        "slot": said(fields.get("Locator", "")),
        "bank": said(fields.get("Bank Locator", "")),
        "size": size_of(fields),
        "type": said(fields.get("Type", "")),
        "speed": int(speed[0]) if speed else None,
        "manufacturer": said(fields.get("Manufacturer", "")),
        "part": said(fields.get("Part Number", "")),
        "serial": said(fields.get("Serial Number", "")),
    }


def size_of(fields: Mapping[str, str]) -> int:
    found = SIZE.match(fields.get("Size", ""))
    return int(found[1]) * UNITS[found[2]] if found else 0
