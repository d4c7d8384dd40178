"""The newest of every node's BMC, as headnode-bmc knows it: on or off, watts, temperature."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headnode import bmclink
from headnode.errors import HeadnodeError
from headnode.workflows.context import Context
from headnode.workflows.roster import Snapshot

# A temperature is an outlier when it stands out among nodes that are alike by this much, and is warm at all.
STANDS_OUT, WARM = 12.0, 45.0
FEWEST = 4


@dataclass(frozen=True)
class Glance:
    answers: bool = False
    power: bool | None = None
    watts: float | None = None
    sensor: str = ""
    temperature: float | None = None
    bad: tuple[str, ...] = ()


@dataclass(frozen=True)
class RackPower:
    name: str
    watts: float
    budget: int | None
    # Nodes that are on, and how many of them do not tell what they draw.
    on: int
    silent: int


@dataclass(frozen=True)
class Outlier:
    node: str
    sensor: str
    temperature: float
    usual: float


@dataclass
class Glances:
    """The newest, asked for at most every few seconds however many pages are open."""

    context: Context
    fresh_for: float = 5.0
    at: float = -1e9
    known: dict[str, Glance] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> dict[str, Glance]:
        with self.lock:
            if time.monotonic() - self.at > self.fresh_for:
                self.known, self.at = glance(self.context), time.monotonic()
            return self.known


def glance(context: Context) -> dict[str, Glance]:
    """Nothing when headnode-bmc does not run: a page shows what there is."""
    try:
        with bmclink.connected(context.paths) as connection:
            if connection is None:
                return {}
            connection.settimeout(5.0)
            found = next(bmclink.ask(connection, {"verb": "glance"}), {}).get("nodes", {})
    except HeadnodeError:
        return {}
    return {name: parsed(said) for name, said in found.items()}


def parsed(said: Mapping[str, object]) -> Glance:
    hot = said.get("hottest")
    sensor, temperature = (str(hot[0]), float(hot[1])) if isinstance(hot, Sequence) and len(hot) == 2 else ("", None)
    watts, power, bad = said.get("watts"), said.get("power"), said.get("bad")
    return Glance(
        bool(said.get("answers")),
        power if isinstance(power, bool) else None,
        float(watts) if isinstance(watts, int | float) else None,
        sensor,
        temperature,
        tuple(str(name) for name in bad) if isinstance(bad, list) else (),
    )


def power_by_rack(context: Context, snapshot: Snapshot, known: Mapping[str, Glance]) -> list[RackPower]:
    """Racks with a budget or with nodes that tell what they draw, those nearest to their budget first."""
    site, found = context.site, []
    racks: dict[str, list[Glance]] = {name: [] for name in site.racks}
    for member in snapshot.members:
        if member.node.rack and member.node.name in known:
            racks.setdefault(member.node.rack, []).append(known[member.node.name])
    for name, there in racks.items():
        budget = site.racks[name].budget_watts if name in site.racks else None
        on = [one for one in there if one.power]
        total = sum(one.watts or 0.0 for one in on)
        if budget is not None or total:
            silent = sum(one.watts is None for one in on)
            found.append(RackPower(name, total, budget, len(on), silent))
    return sorted(found, key=lambda rack: -(rack.watts / rack.budget if rack.budget else 0.0))


def outliers(snapshot: Snapshot, known: Mapping[str, Glance], most: int = 8) -> list[Outlier]:
    """Nodes much warmer than most of their profile. Pure."""
    alike: dict[str, list[tuple[float, str, str]]] = {}
    for member in snapshot.members:
        one = known.get(member.node.name)
        if one and one.temperature is not None:
            alike.setdefault(member.node.profile, []).append((one.temperature, member.node.name, one.sensor))
    found = []
    for readings in alike.values():
        usual = sorted(reading[0] for reading in readings)[len(readings) // 2]
        if len(readings) >= FEWEST:
            found += [
                Outlier(name, sensor, at, usual)
                for at, name, sensor in readings
                if at >= WARM and at - usual >= STANDS_OUT
            ]
    return sorted(found, key=lambda outlier: outlier.usual - outlier.temperature)[:most]
