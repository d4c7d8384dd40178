"""What sensors, logs and consoles mean for a node's history: events when something changes, else silence. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headnode.model import Event, Severity
from ipmi.phases import Phase
from ipmi.readings import EventEntry, Health, SensorReading

SEVERITY: Mapping[Health, Severity] = {
    Health.OK: Severity.INFO,
    Health.UNKNOWN: Severity.INFO,
    Health.WARNING: Severity.WARNING,
    Health.CRITICAL: Severity.ERROR,
}
PHASES: Mapping[Phase, str] = {
    Phase.FIRMWARE: "its firmware starts",
    Phase.PXE: "it boots from the network",
    Phase.BOOT_LOADER: "its boot loader runs",
    Phase.KERNEL: "its kernel starts",
    Phase.LOGIN: "it shows a login prompt",
    Phase.PANIC: "its kernel has given up",
    Phase.PXE_ERROR: "its network boot failed",
    Phase.GRUB_RESCUE: "nothing to start was found",
}
BAD = (Phase.PANIC, Phase.PXE_ERROR, Phase.GRUB_RESCUE)
ACTOR, CAUSE = "headnode-bmc", "watching the BMC"


@dataclass
class Known:
    """What was last known of a node; kept in a file, so that a restart repeats no event."""

    health: dict[str, str] = field(default_factory=dict)
    # Fingerprints of the event log's entries; None until it was read for the first time.
    entries: list[str] | None = None
    status: str = ""

    @classmethod
    def parse(cls, text: str) -> "Known":
        try:
            said = json.loads(text)
            return cls(dict(said["health"]), said["entries"], str(said["status"]))
        except (ValueError, KeyError, TypeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps({"health": self.health, "entries": self.entries, "status": self.status})


def sensor_events(node: str, known: Known, readings: Sequence[SensorReading]) -> list[Event]:
    """Sensors that crossed a threshold in either direction since the last look."""
    found = []
    for reading in readings:
        health = reading.health
        before = Health(known.health.get(reading.name, Health.OK.value))
        if health in (before, Health.UNKNOWN):
            continue
        known.health[reading.name] = health.value
        value = f" at {reading.value:g} {reading.unit}".rstrip() if reading.value is not None else ""
        word = "is well again" if health is Health.OK else f"is {health.value}"
        data = {"sensor": reading.name, "value": reading.value, "unit": reading.unit, "health": health.value}
        found.append(event(node, "sensor", f"{reading.name} {word}{value}", SEVERITY[health], data))
    return found


def log_events(node: str, known: Known, entries: Sequence[EventEntry]) -> list[Event]:
    """Entries that were not there at the last look; the first look only remembers what is old news."""
    prints = [fingerprint(entry) for entry in entries]
    before, known.entries = known.entries, prints
    if before is None:
        return []
    old = set(before)
    return [
        event(
            node,
            "sel",
            f"{entry.source}: {entry.message}",
            SEVERITY[entry.health],
            {"id": entry.id, "at": entry.at.isoformat() if entry.at else None, "health": entry.health.value},
        )
        for entry, mark in zip(entries, prints, strict=True)
        if mark not in old
    ]


def status_event(node: str, known: Known, status: str, why: str) -> list[Event]:
    """The BMC itself came or went."""
    before, known.status = known.status, status
    if before == status or (not before and status == "ok"):
        return []
    if status == "ok":
        return [event(node, "bmc.status", f"its BMC answers again (it was: {before})", Severity.INFO, {})]
    return [event(node, "bmc.status", why, Severity.WARNING, {"status": status})]


def phase_event(node: str, phase: Phase, shown: bytes = b"") -> Event:
    """The line that showed it goes along: which error it was is half of the answer to why."""
    severity = Severity.ERROR if phase is Phase.PANIC else Severity.WARNING if phase in BAD else Severity.INFO
    line = "".join(c if c.isprintable() else "?" for c in shown.decode(errors="replace"))[:200]
    message = f"console: {PHASES[phase]}" + (f": {line}" if phase in BAD and line else "")
    return event(node, "console.phase", message, severity, {"phase": phase.value, "line": line})


def event(node: str, kind: str, message: str, severity: Severity, data: Mapping[str, Any]) -> Event:
    return Event(kind, message, ACTOR, CAUSE, node, severity, data)


def fingerprint(entry: EventEntry) -> str:
    text = f"{entry.id}\n{entry.at}\n{entry.source}\n{entry.message}\n".encode() + entry.raw
    return hashlib.sha256(text).hexdigest()[:12]


def numbers(readings: Iterable[SensorReading]) -> dict[str, float]:
    return {reading.name: reading.value for reading in readings if reading.value is not None}
