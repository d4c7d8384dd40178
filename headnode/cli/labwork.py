"""From nothing to a cluster that is up: phases that are timed, can be interrupted, and go on where they were.

Estimates are what each phase took the last time on this machine; the first time, what it took on a slow one.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headnode.cli.common import note
from headnode.errors import HeadnodeError

if TYPE_CHECKING:
    from headnode.lab.spec import Spec
    from headnode.model import Node
    from headnode.workflows.context import Context

# Seconds, measured with software emulation on two cores. Deploying and verifying count for each node.
USUAL = {"ramdisk": 60.0, "image": 90.0, "boot": 10.0, "deploy": 120.0, "verify": 90.0}
LOOK_EVERY = 0.5
SAY_EVERY = 30.0


class Phases:
    """How long everything took, and how long what is left will take."""

    def __init__(self, timings: Path, nodes: int, plan: Sequence[str], begun: float | None = None) -> None:
        self.took: dict[str, float] = {}
        self._plan = plan
        self._timings = timings
        self._usual = {**USUAL, **read(timings)}
        self._each = {"deploy": nodes, "verify": nodes}
        self._begun = time.monotonic()
        self._current, self._since = "", 0.0
        if begun is not None:
            self.took["packages"] = max(0.0, time.time() - begun)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._current, self._since = name, time.monotonic()
        note(f"{name}: about {said(self._usual[name])}, {said(self.left())} in all")
        yield
        self.passed(name, time.monotonic() - self._since)

    def passed(self, name: str, seconds: float) -> None:
        """Also for one of several nodes; only what really took its time says something about the next time."""
        self.took[name] = self.took.get(name, 0.0) + seconds
        if seconds > 1.0 or name in self._each:
            self._usual[name] = seconds
            self._timings.parent.mkdir(parents=True, exist_ok=True)
            self._timings.write_text(json.dumps(self._usual) + "\n")

    def left(self) -> float:
        """Of the phases that have not begun, and the rest of the one that has."""
        waiting = [name for name in self._plan if name not in self.took and name != self._current]
        running = max(0.0, self._usual.get(self._current, 0.0) - (time.monotonic() - self._since))
        return running + sum(self.whole(name) for name in waiting)

    def expect(self, nodes: int) -> None:
        """So many have to be installed; the others are up."""
        self._each = dict.fromkeys(self._each, nodes)

    def whole(self, name: str) -> float:
        return self._usual[name] * self._each.get(name, 1)

    def usual(self, name: str) -> float:
        return self._usual[name]

    def summary(self) -> str:
        parts = [f"{name} {said(seconds)}" for name, seconds in self.took.items()]
        whole = time.monotonic() - self._begun + self.took.get("packages", 0.0)
        return f"{', '.join(parts)}; {said(whole)} in all."


def read(timings: Path) -> dict[str, float]:
    try:
        found = json.loads(timings.read_text())
        return {name: float(found[name]) for name in USUAL if name in found}
    except (OSError, ValueError, TypeError):
        return {}


def said(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def provide_stock(phases: Phases) -> None:
    """Image and ramdisk; what an interrupted build left is thrown away and built again."""
    from headnode.cli.images import progress_lines
    from headnode.lab import stock

    for name, build in (("ramdisk", stock.ramdisk_base), ("image", stock.image)):
        if stock.is_there(name):
            phases.took[name] = 0.0
            continue
        with phases.phase(name), progress_lines() as progress:
            build(progress)


def bring_up(phases: Phases, spec: "Spec") -> None:
    from headnode.cli.images import progress_lines
    from headnode.lab import link
    from headnode.lab.spec import Places

    if link.ask(Places.of(spec.name), "status") is None:
        with phases.phase("boot"), progress_lines() as progress:
            link.up(spec, progress)
        return
    phases.took["boot"] = 0.0
    phases.expect(still_to_install(spec))
    link.up(spec, note)


def still_to_install(spec: "Spec") -> int:
    from headnode.lab.spec import Places
    from headnode.model import State
    from headnode.workflows.context import Context, who

    at = Context(Places.of(spec.name).head, actor=who(), cause="headnode lab up")
    try:
        up = {node.name for node in at.inventory.in_state(State.UP)}
    finally:
        at.close()
    return sum(node.name not in up for node in spec.nodes)


def deploy_all(phases: Phases, spec: "Spec") -> None:
    """Enrol and install every node that is not up, with the product's own commands."""
    from headnode.lab.spec import Places
    from headnode.workflows.context import Context, who

    at = Context(Places.of(spec.name).head, actor=who(), cause="headnode lab deploy")
    try:
        known = {node.name for node in at.inventory.nodes()}
        for node in spec.nodes:
            if node.name not in known:
                tell_and_run(spec, "enroll", node.name, "--mac", node.mac, "--bmc", node.bmc, "--profile", "gpu",
                             "--yes")  # fmt: skip
        Rollout(phases, spec, at).run()
    finally:
        at.close()


def tell_and_run(spec: "Spec", *words: str) -> None:
    from headnode.lab import link

    note(f"$ headnode {' '.join(words)}")
    done = link.headnode(spec.name, *words)
    if done.returncode != 0:
        raise HeadnodeError(f"'headnode {' '.join(words)}' failed: {done.stderr.strip().removeprefix('headnode: ')}")


class Rollout:
    """All nodes to `up`. Without KVM the next begins when the one before has its image: unpacking takes all of two
    processors, starting from the disk only one."""

    def __init__(self, phases: Phases, spec: "Spec", at: "Context") -> None:
        from headnode.cli.watch import Meter
        from headnode.lab.machine import Accelerator
        from headnode.lab.qemu import accelerator

        self.phases = phases
        self.spec = spec
        self.at = at
        self.together = accelerator() is Accelerator.KVM
        # What each was last seen as, and since when; those that we began ourselves.
        self.states: dict[str, tuple[str, float]] = {}
        self.begun: set[str] = set()
        self.meters = {node.name: Meter() for node in spec.nodes}

    def run(self) -> None:
        from headnode.cli.watch import look

        with live_view() as show:
            while True:
                rows, nodes = look(self.at, list(self.meters), self.meters)
                self.notice(nodes)
                show(rows, f"about {said(self.left(nodes))} left")
                if failed := [node for node in nodes if node.state == "failed" and node.name in self.begun]:
                    raise HeadnodeError(
                        f"{failed[0].name} failed: {failed[0].phase}: {failed[0].reason}",
                        hint=f"'headnode lab console {failed[0].name}' shows what it said; run this again to try again",
                    )
                if all(node.state == "up" for node in nodes):
                    return
                if following := self.next(nodes):
                    self.begun.add(following)
                    self.states[following] = ("deploying", time.monotonic())
                    tell_and_run(self.spec, "deploy", following, "--yes")
                time.sleep(LOOK_EVERY)

    def next(self, nodes: "Sequence[Node]") -> str | None:
        """The node to begin with now; one that is under way from an earlier run is only watched."""
        if not self.together and any(node.state in ("inspecting", "deploying") for node in nodes):
            return None
        idle = [node.name for node in nodes if node.state in ("enrolled", "ready", "failed")]
        return next((name for name in idle if name not in self.begun), None)

    def notice(self, nodes: "Sequence[Node]") -> None:
        now = time.monotonic()
        for node in nodes:
            before, since = self.states.get(node.name, ("", now))
            if node.state.value == before:
                continue
            self.states[node.name] = (node.state.value, now)
            phase = {"deploying": "deploy", "verifying": "verify"}.get(before)
            # Only what was seen from its beginning says how long it takes.
            if phase and node.state in ("verifying", "up") and node.name in self.begun:
                self.phases.passed(phase, now - since)

    def left(self, nodes: "Sequence[Node]") -> float:
        """Deploying goes one after another, so the last node's verification is all that comes on top."""
        deploy, verify = self.phases.usual("deploy"), self.phases.usual("verify")
        waiting, last = 0.0, 0.0
        for node in nodes:
            passed = time.monotonic() - self.states[node.name][1]
            if node.state == "verifying":
                last = max(last, verify - passed)
            elif node.state != "up":
                waiting += max(0.0, deploy - (passed if node.state == "deploying" else 0.0))
                last = verify
        return max(0.0, waiting + last)


@contextmanager
def live_view() -> "Iterator[Callable[[Sequence[tuple[str, ...]], str], None]]":
    """A table that is drawn again and again on a terminal; anywhere else a line for each step, and now and then one
    that says how long it will take."""
    from headnode.cli.watch import table, tell_changes

    if sys.stderr.isatty():
        from rich.console import Console, Group
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield lambda rows, line: live.update(Group(table(rows), line))
        return
    told: dict[str, tuple[str, ...]] = {}
    spoken = time.monotonic()

    def tell(rows: "Sequence[tuple[str, ...]]", line: str) -> None:
        nonlocal spoken
        tell_changes(rows, told)
        if time.monotonic() - spoken > SAY_EVERY:
            spoken = time.monotonic()
            note(line)

    yield tell
