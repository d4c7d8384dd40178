"""When to switch which node on, so that no rack's fuse sees all of them start at once. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headnode.errors import InvalidInput
from ipmi.readings import SensorReading

# PS1 Input Power, PSU 2 Power In, Power Supply 1: one of several that share the load.
SUPPLY = re.compile(r"(ps|psu|power supply)[ _-]?\d", re.IGNORECASE)


@dataclass(frozen=True)
class Starter:
    """A node about to be switched on, and the most it draws while it starts."""

    name: str
    watts: float
    rack: str | None = None


@dataclass(frozen=True)
class Start:
    at: float
    name: str


def watts(readings: Iterable[SensorReading]) -> float | None:
    """What a machine draws by its own sensors: its total, or what all its power supplies take; None if none tells."""
    found = {reading.name: reading.value for reading in readings if reading.unit == "W" and reading.value is not None}
    supplies = [value for name, value in found.items() if SUPPLY.match(name) and "out" not in name.lower()]
    return max([*found.values(), sum(supplies)]) if found else None


def plan(
    starters: Iterable[Starter],
    budgets: Mapping[str, float],
    drawn: Mapping[str, float] | None = None,
    *,
    surge_seconds: float = 10.0,
) -> tuple[Start, ...]:
    """Offsets in seconds, in the order given; nodes of racks without a budget start at once.

    `drawn` is what the rack draws before. A node counts with its starting watts for `surge_seconds`; what it draws once
    it has settled nobody knows yet, and is counted when the next ones are started.
    """
    drawn = drawn or {}
    waves: dict[str, int] = {}
    used: dict[str, float] = {}
    starts: list[Start] = []
    for starter in starters:
        if starter.rack is None or starter.rack not in budgets:
            starts.append(Start(0.0, starter.name))
            continue
        room = budgets[starter.rack] - drawn.get(starter.rack, 0.0)
        if starter.watts > room:
            raise InvalidInput(
                f"{starter.name} needs {starter.watts:g} W to start, but rack {starter.rack} has {room:g} W to spare",
                hint="raise racks.budget_watts in site.yaml, or switch something in that rack off first",
            )
        wave = waves.setdefault(starter.rack, 0)
        if used.get(starter.rack, 0.0) + starter.watts > room:
            waves[starter.rack] = wave = wave + 1
            used[starter.rack] = 0.0
        used[starter.rack] = used.get(starter.rack, 0.0) + starter.watts
        starts.append(Start(wave * surge_seconds, starter.name))
    return tuple(sorted(starts, key=lambda start: start.at))
