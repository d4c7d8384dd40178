"""The health of the whole cluster on one screen, as numbers for monitoring, and as an exit code."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headnode import control
from headnode.errors import HeadnodeError
from headnode.lifecycle import WORKING
from headnode.model import Event, Node, Severity, State
from headnode.nodeset import fold
from headnode.services import services
from headnode.workflows import discovery
from headnode.workflows.context import Context

LATELY = timedelta(hours=24)
SPACE = {Severity.ERROR: 512 << 20, Severity.WARNING: 5 << 30}
# What monitoring programs take exit codes for.
CODES = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}
MOST_EVENTS = 500
# What nodes that are up complain with: their sensors, logs, consoles and reports.
COMPLAINTS = ("sensor", "sel", "console.phase", "verify")


@dataclass(frozen=True)
class Line:
    what: str
    severity: Severity
    words: str
    hint: str = ""


@dataclass(frozen=True)
class Status:
    lines: tuple[Line, ...]
    states: dict[str, int]

    @property
    def worst(self) -> Severity:
        order = list(CODES)
        return max((line.severity for line in self.lines), key=order.index, default=Severity.INFO)

    @property
    def code(self) -> int:
        return CODES[self.worst]

    @property
    def document(self) -> dict[str, object]:
        lines = [{"what": x.what, "severity": x.severity.value, "words": x.words, "hint": x.hint} for x in self.lines]
        return {"status": self.worst.value, "nodes": self.states, "lines": lines}


def status(context: Context, now: datetime | None = None) -> Status:
    at = now or datetime.now(UTC)
    states = {state.value: 0 for state in State} | context.inventory.states()
    away = context.inventory.in_state(State.MAINTENANCE)
    complaints = context.inventory.history.complaints(recent(context), COMPLAINTS, limit=MOST_EVENTS)
    lines = [
        head(context),
        foreign(context),
        space(context),
        *failures(context.inventory.in_state(State.FAILED)),
        *working(context.inventory.in_state(*WORKING), at),
        *aside(away),
        *trouble(complaints, at),
    ]
    return Status(tuple(lines), states)


def recent(context: Context) -> int:
    """An event far enough back: events are numbered, and numbers are what is indexed."""
    return max(0, context.inventory.newest_event() - 100_000)


def head(context: Context) -> Line:
    try:
        expected = services(context.site, context.paths)
        down = [service.name for service in expected if not service.ready()]
    except (HeadnodeError, OSError) as error:
        return Line("services", Severity.ERROR, str(error))
    if not control.running(context.paths):
        return Line("services", Severity.ERROR, "not running", "headnode up, or systemctl start headnode.target")
    if down:
        return Line("services", Severity.ERROR, f"not running: {', '.join(down)}", "headnode check")
    return Line("services", Severity.INFO, f"all {len(expected)} run")


def foreign(context: Context) -> Line:
    servers = discovery.foreign_servers(context)
    if servers:
        return Line("foreign DHCP", Severity.ERROR, f"answers {'; '.join(servers)}", "headnode check")
    return Line("foreign DHCP", Severity.INFO, "none")


def space(context: Context) -> Line:
    place = context.paths.state if context.paths.state.exists() else context.paths.root
    free = shutil.disk_usage(place).free
    severity = next((severity for severity, least in SPACE.items() if free < least), Severity.INFO)
    return Line("disk space", severity, f"{free / 2**30:.1f} GiB free in {place}")


def failures(nodes: Sequence[Node]) -> Iterator[Line]:
    """Nodes that failed for the same reason share a line."""
    alike: dict[str, list[str]] = {}
    for node in nodes:
        alike.setdefault(node.reason or "no reason given", []).append(node.name)
    for reason, names in sorted(alike.items(), key=lambda item: -len(item[1])):
        yield Line(f"failed {fold(names)}", Severity.ERROR, reason, f"headnode why {fold(names)}")


def working(nodes: Sequence[Node], now: datetime) -> Iterator[Line]:
    for state in WORKING:
        chosen = [node for node in nodes if node.state is state]
        if chosen:
            last = max((node.deadline for node in chosen if node.deadline), default=None)
            until = f", at most {max(0.0, (last - now).total_seconds()) / 60:.0f} min more" if last else ""
            yield Line(f"{state} {fold(node.name for node in chosen)}", Severity.INFO, f"{len(chosen)} nodes{until}")


def aside(nodes: Sequence[Node]) -> Iterator[Line]:
    """Somebody took them out of service and knows why: no trouble, but not to be forgotten."""
    alike: dict[str, list[str]] = {}
    for node in nodes:
        alike.setdefault(node.reason or "no reason given", []).append(node.name)
    for reason, names in alike.items():
        yield Line(f"maintenance {fold(names)}", Severity.INFO, reason)


def trouble(events: Sequence[Event], now: datetime) -> Iterator[Line]:
    """What nodes that are up complained of lately."""
    alike: dict[str, set[str]] = {}
    for event in events:
        if event.node and event.at and now - event.at < LATELY:
            alike.setdefault(event.message, set()).add(event.node)
    for message, names in sorted(alike.items(), key=lambda item: -len(item[1]))[:10]:
        yield Line(f"lately {fold(names)}", Severity.WARNING, message, f"headnode why {fold(names)}")


def metrics(found: Status) -> str:
    """For Prometheus: by the door's /api/v1/metrics, or written to node_exporter's directory from cron."""
    lines = ["# HELP headnode_nodes Nodes in each state", "# TYPE headnode_nodes gauge"]
    lines += [f'headnode_nodes{{state="{state}"}} {count}' for state, count in sorted(found.states.items())]
    lines += ["# HELP headnode_status 0 well, 1 warning, 2 error", "# TYPE headnode_status gauge"]
    lines += [f"headnode_status {found.code}"]
    lines += ["# HELP headnode_problems Lines of the status by severity", "# TYPE headnode_problems gauge"]
    for severity in (Severity.WARNING, Severity.ERROR):
        count = sum(line.severity is severity for line in found.lines)
        lines.append(f'headnode_problems{{severity="{severity}"}} {count}')
    return "\n".join(lines) + "\n"
