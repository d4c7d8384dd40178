"""A node's report as tables. The node wrote it: nothing in it is trusted to have the form it should."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headnode.web.rendering import pretty, size

MOST_ROWS = 100
LONGEST_CELL = 200
TABLES = (
    ("Disks", "disks", (("Device", "device"), ("Model", "model"), ("Serial", "serial"), ("Size", "size"))),
    ("GPUs", "gpus", (("Address", "address"), ("Vendor", "vendor"), ("Device", "device"), ("Link", "link_speed"),
                      ("Width", "link_width"))),
    ("Network ports", "nics", (("Name", "name"), ("MAC", "mac"), ("Mb/s", "speed_mbps"), ("Driver", "driver"),
                               ("Link", "link"))),
)  # fmt: skip
FACTS = (
    ("Product", "product"), ("Maker", "manufacturer"), ("Serial", "serial"), ("Processor", "cpu_model"),
    ("Threads", "cpus"), ("Memory", "memory_bytes"), ("Firmware", "firmware"), ("BIOS", "bios_version"),
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


def shown(report: Mapping[str, Any]) -> Hardware:
    facts = [(title, cell(key, report[key])) for title, key in FACTS if report.get(key)]
    tables = []
    for title, key, columns in TABLES:
        found = report.get(key)
        items = [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
        if items:
            rows = [[cell(name, item.get(name)) for _, name in columns] for item in items[:MOST_ROWS]]
            tables.append(Table(title, tuple(heading for heading, _ in columns), rows, len(items)))
    return Hardware(facts, tables)


def cell(key: str, value: Any) -> str:
    if key in ("size", "memory_bytes") and isinstance(value, int | float) and not isinstance(value, bool):
        return size(value)
    return pretty(value)[:LONGEST_CELL]
