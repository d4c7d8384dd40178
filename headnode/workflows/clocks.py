"""Clocks: how far every node is from the head node, measured now, or as the node itself last said."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headnode import clock, ntp
from headnode.fields import measurement
from headnode.model import Event, Node, Severity, State
from headnode.workflows.context import Context

HEAD = "head"
# Nodes whose clocks were wrong at the last look.
OFF = "clocks_off"
BAD = ("off", "unsynchronised", "silent", "unknown")
Ask = Callable[[Sequence[str]], Mapping[str, ntp.Answer]]


@dataclass(frozen=True)
class Reading:
    """One clock. An offset without an age was measured just now; without an offset nothing is known."""

    node: str
    offset_ms: float | None = None
    stratum: int | None = None
    source: str = ""
    age: float | None = None
    state: str = "ok"

    @property
    def bad(self) -> bool:
        return self.state in BAD


def readings(context: Context, nodes: Sequence[Node], ask: Ask = ntp.ask) -> list[Reading]:
    """The head node first, then outliers, then the rest, the furthest off first."""
    answers = ask(sorted(str(node.address) for node in nodes if node.address))
    bound = context.site.time.max_offset_ms
    silent = [node.name for node in nodes if str(node.address) not in answers]
    verified = context.inventory.history.newest("verify", silent)
    now = datetime.now(UTC)
    found = [
        measured(node.name, answers[str(node.address)], bound)
        if str(node.address) in answers
        else reported(node, verified.get(node.name), now)
        for node in nodes
    ]
    return [head(context), *sorted(found, key=worst_first)]


def worst_first(reading: Reading) -> tuple[bool, float, str]:
    return (not reading.bad, -abs(reading.offset_ms or 0.0), reading.node)


def head(context: Context) -> Reading:
    """The head node's own clock, against its upstream servers."""
    said = clock.tracking(context.paths)
    if said is None:
        return Reading(HEAD, source="chronyd does not run here", state="unknown")
    state = "ok" if said.synchronised else "unsynchronised"
    return Reading(HEAD, said.offset_ms, said.stratum, f"chronyd, from {said.reference}", state=state)


def measured(name: str, answer: ntp.Answer, bound: int) -> Reading:
    state = judged(answer.offset_ms, answer.synchronised, bound)
    return Reading(name, answer.offset_ms, answer.stratum, "asked now", 0.0, state)


def reported(node: Node, verified: Event | None, now: datetime) -> Reading:
    """What a node said of its clock when it was verified: old news, and marked so. Only a node that is up has to
    answer; of any other its state is told."""
    state = "silent" if node.state is State.UP else node.state.value
    if verified is None or verified.at is None:
        return Reading(node.name, source="never heard", state=state)
    age = (now - verified.at).total_seconds()
    for check in clock_checks(verified):
        offset, stratum = measurement(check.get("offset_ms")), check.get("stratum")
        if offset is not None and isinstance(stratum, int):
            return Reading(node.name, float(offset), stratum, "its own report", age, state)
    return Reading(node.name, source="its report said nothing", age=age, state=state)


def clock_checks(event: Event) -> Iterator[Mapping[str, object]]:
    checks = event.data.get("checks")
    for check in checks if isinstance(checks, list) else []:
        if isinstance(check, Mapping) and check.get("name") == "clock":
            yield check


def judged(offset_ms: float, synchronised: bool, bound: int) -> str:
    if not synchronised:
        return "unsynchronised"
    return "off" if abs(offset_ms) > bound else "ok"


def note_outliers(context: Context, ask: Ask = ntp.ask) -> None:
    """Events for nodes that are up and whose clocks went wrong, or came right again, since the last look.

    A node that does not answer is left as it was: it may be restarting, and others look at that.
    """
    up = context.inventory.in_state(State.UP)
    found = {reading.node: reading for reading in readings(context, up, ask) if reading.age == 0.0}
    before = set(context.inventory.fact(OFF, "").split())
    wrong = {name for name, reading in found.items() if reading.bad}
    now = wrong | ((before - found.keys()) & {node.name for node in up})
    if now == before:
        return
    bound = context.site.time.max_offset_ms
    with context.inventory.change("reconcile", "regular look at clocks") as change:
        change.set_fact(OFF, " ".join(sorted(now)))
        for name in sorted(now - before):
            said = f"its clock is {found[name].state}: {found[name].offset_ms:.1f} ms; at most {bound} ms is allowed"
            change.record("clock", said, node=name, severity=Severity.WARNING)
        for name in sorted((before & found.keys()) - now):
            change.record("clock", f"its clock is right again: {found[name].offset_ms:.1f} ms", node=name)
