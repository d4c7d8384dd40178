"""When to switch which node on, so that no rack's fuse sees all of them start at once. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headnode.errors import InvalidInput


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


def plan(
    starters: Iterable[Starter],
    budgets: Mapping[str, float],
    drawn: Mapping[str, float] | None = None,
    *,
    surge_seconds: float = 10.0,
) -> tuple[Start, ...]:
    """Offsets in seconds, in the order given; nodes of racks without a budget start at once.

    A node counts with its starting watts for `surge_seconds`; after that it counts as settled, and what a
    settled node draws is the site's business when it sets the budget. `drawn` is what already runs in a rack.
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
