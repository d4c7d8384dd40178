"""A node's report of its hardware as tables. The node wrote it: nothing in it is trusted to have the form it should."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headnode import sizes
from headnode.fields import measurement

MOST_ROWS = 100
LONGEST_CELL = 200
NOTHING = "-"
Item = Mapping[str, Any]
# A heading, and the key or the function that gives the cell.
Column = tuple[str, str | Callable[[Item], Any]]


def bars(item: Item) -> str:
    """Whether the firmware found room for the device's memory windows; without it a driver cannot use it."""
    if "bars_assigned" not in item:
        return ""
    return "assigned" if item["bars_assigned"] is True else "not assigned"


def neighbour(item: Item) -> str:
    found = item.get("lldp")
    if not isinstance(found, Mapping):
        return ""
    return f"{found.get('system') or found.get('chassis')} {found.get('port')}"


def chip(item: Item) -> str:
    return f"{item.get('vendor')}:{item.get('device')}"


def holding(item: Item) -> str:
    found = item.get("holds")
    held = [part for part in found if isinstance(part, Mapping)] if isinstance(found, list) else []
    return " ".join(str(part.get("partlabel") or part.get("label") or part.get("type") or "?") for part in held)


PCI: tuple[Column, ...] = (
    ("Address", "address"), ("Chip", chip), ("BARs", bars), ("Link", "link_speed"), ("Width", "link_width"),
    ("NUMA", "numa"),
)  # fmt: skip
TABLES: tuple[tuple[str, str, tuple[Column, ...]], ...] = (
    ("Disks", "disks", (("Device", "device"), ("Type", "type"), ("Size", "size"), ("Model", "model"),
                        ("Serial", "serial"), ("WWN", "wwn"), ("Path", "by_path"), ("Holds", holding))),
    ("GPUs", "gpus", PCI),
    ("NVSwitches", "nvswitches", PCI),
    ("Network ports", "nics", (("Name", "name"), ("MAC", "mac"), ("Link", "link"), ("Mb/s", "speed_mbps"),
                               ("Driver", "driver"), ("Neighbour", neighbour))),
    ("Memory modules", "dimms", (("Slot", "slot"), ("Size", "size"), ("Type", "type"), ("MT/s", "speed"),
                                 ("Maker", "manufacturer"), ("Part", "part"), ("Serial", "serial"))),
)  # fmt: skip
FACTS = (
    ("Product", "product"), ("Maker", "manufacturer"), ("Serial", "serial"), ("Processor", "cpu_model"),
    ("Sockets", "cpu_sockets"), ("Cores", "cpu_cores"), ("Threads", "cpus"), ("Memory", "memory_bytes"),
    ("Firmware", "firmware"), ("Secure Boot", "secure_boot"), ("BIOS", "bios_version"), ("BIOS date", "bios_date"),
    ("BMC", "bmc"),
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    total: int


@dataclass(frozen=True)
class Hardware:
    facts: list[tuple[str, str]]
    tables: list[Table]


def shown(report: Item) -> Hardware:
    facts = [(title, fact(key, report[key])) for title, key in FACTS if report.get(key) not in (None, "", {})]
    tables = []
    for title, key, columns in TABLES:
        found = report.get(key)
        items = [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
        if items:
            rows = [[cell(item, column) for _, column in columns] for item in items[:MOST_ROWS]]
            tables.append(Table(title, tuple(heading for heading, _ in columns), rows, len(items)))
    return Hardware(facts, tables)


def fact(key: str, value: Any) -> str:
    if key == "bmc" and isinstance(value, Mapping):
        return in_words(" ".join(str(value[name]) for name in ("address", "mac") if value.get(name)))
    return measured(key, value)


def cell(item: Item, column: str | Callable[[Item], Any]) -> str:
    return measured(column, item.get(column)) if isinstance(column, str) else in_words(column(item))


def measured(key: str, value: Any) -> str:
    size = measurement(value) if key in ("size", "memory_bytes") else None
    return in_words(value) if size is None else sizes.shown(int(size))


def in_words(value: Any) -> str:
    """One line, whatever was sent: it may be shown on a terminal, which obeys control characters."""
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "".join(c if c.isprintable() else "?" for c in str(value))[:LONGEST_CELL]
