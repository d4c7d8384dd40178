"""The live view of nodes at work: step, percent, speed and what is left, until the last of them has finished."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import note

if TYPE_CHECKING:
    from headnode.model import Deployment, Node
    from headnode.workflows.context import Context

COLUMNS = ("node", "state", "step", "%", "speed", "left", "since")
EVERY = 0.5


@dataclass
class Meter:
    """How fast an image comes in, over the last seconds: a mean since the beginning would hide that it stopped."""

    window: float = 10.0
    seen: "deque[tuple[float, int]]" = field(default_factory=deque)

    def add(self, now: float, received: int | None) -> None:
        if received is None or (self.seen and received < self.seen[-1][1]):
            # Another step, or the same one after a power cut.
            self.seen.clear()
        if received is not None:
            self.seen.append((now, received))
        while len(self.seen) > 2 and now - self.seen[1][0] >= self.window:
            self.seen.popleft()

    def speed(self) -> float | None:
        """Bytes a second, once there are two moments to compare."""
        if len(self.seen) < 2 or self.seen[-1][0] == self.seen[0][0]:
            return None
        (began, first), (now, last) = self.seen[0], self.seen[-1]
        return (last - first) / (now - began)

    def left(self, total: int | None) -> float | None:
        speed = self.speed()
        return (total - self.seen[-1][1]) / speed if speed and total is not None else None


def row(node: "Node", work: "Deployment | None", meter: Meter, now: float) -> tuple[str, ...]:
    """One line of the table. Pure."""
    if work is None:
        return (node.name, node.state.value, node.reason or "", "", "", "", "")
    speed, left = meter.speed(), meter.left(work.total)
    running = work.finished is None
    waiting = "waiting for the node" if running else ""
    ended = work.finished.timestamp() if work.finished else now
    return (
        node.name,
        node.state.value,
        work.reason or (node.reason if work.intent != "rescue" else None) or work.step or waiting,
        "" if work.percent is None else str(work.percent),
        "" if speed is None or not running else f"{speed / 1e6:.1f} MB/s",
        "" if left is None or not running else clock(left),
        clock(ended - work.started.timestamp()),
    )


def clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def watch_until_done(at: "Context", nodes: "Sequence[Node]") -> None:
    """Until all have finished; exit code 1 when one failed. Ctrl-C leaves it, the work goes on."""
    try:
        ended = follow(at, [node.name for node in nodes])
    except KeyboardInterrupt:
        note("No longer watching; the work goes on. 'headnode nodes' shows how far it is.")
        raise click.exceptions.Exit(130) from None
    trouble = {node.name: said for node, work in ended if (said := problem(node, work))}
    for name, said in trouble.items():
        note(f"{name} failed: {said}")
    if trouble:
        raise click.exceptions.Exit(1)


def problem(node: "Node", work: "Deployment | None") -> str:
    """Why it did not become what was asked for; nothing when it did. Pure."""
    if node.state == "failed" and (work is None or work.intent != "rescue"):
        return f"{node.phase}: {node.reason}"
    if work is None or work.result == "done":
        return ""
    return work.reason or "nothing was heard of it in time"


def over(node: "Node", work: "Deployment | None", now: float) -> bool:
    """Whether there is nothing more to wait for. A rescue changes no state: only its own record says that it began."""
    from headnode.lifecycle import WORKING

    waiting = work is not None and work.finished is None and now < work.deadline.timestamp()
    return node.state not in WORKING and not waiting


def follow(at: "Context", names: "Sequence[str]") -> "list[tuple[Node, Deployment | None]]":
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    meters = {name: Meter() for name in names}
    told: dict[str, tuple[str, ...]] = {}
    live = Live(console=console, refresh_per_second=4)
    with live if console.is_terminal else nullcontext():
        while True:
            found, now = under_way(at, names), time.time()
            rows = measured(found, meters, now)
            if console.is_terminal:
                live.update(table(rows))
            else:
                tell_changes(rows, told)
            if all(over(node, work, now) for node, work in found):
                return found
            time.sleep(EVERY)


def under_way(at: "Context", names: "Sequence[str]") -> "list[tuple[Node, Deployment | None]]":
    current = at.inventory.nodes(names)
    works = {work.node: work for work in at.inventory.deployments(current, limit_each=1)}
    return [(node, works.get(node.name)) for node in current]


def measured(
    found: "Sequence[tuple[Node, Deployment | None]]", meters: Mapping[str, Meter], now: float
) -> list[tuple[str, ...]]:
    for node, work in found:
        meters[node.name].add(now, work.received if work else None)
    return [row(node, work, meters[node.name], now) for node, work in found]


def look(
    at: "Context", names: "Sequence[str]", meters: Mapping[str, Meter]
) -> "tuple[list[tuple[str, ...]], list[Node]]":
    found = under_way(at, names)
    return measured(found, meters, time.time()), [node for node, _ in found]


def table(rows: Sequence[tuple[str, ...]]) -> Any:
    from rich.table import Table

    made = Table(box=None)
    for column in COLUMNS:
        made.add_column(column, justify="right" if column in ("%", "speed", "left", "since") else "left")
    for line in rows:
        made.add_row(*line)
    return made


def tell_changes(rows: Sequence[tuple[str, ...]], told: dict[str, tuple[str, ...]]) -> None:
    """Where nobody can redraw a screen, a line for every new step."""
    for line in rows:
        name, state, step = line[:3]
        if told.get(name) != (state, step):
            told[name] = (state, step)
            note(f"{line[6] or '0:00'} {name}: {state}" + (f": {step}" if step else ""))
