"""The whole cluster at a glance: counts, what needs attention first and why, what is under way."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headnode import nodeset
from headnode.errors import counted
from headnode.lifecycle import WORKING
from headnode.model import Deployment, Node, State
from headnode.workflows import discovery
from headnode.workflows.context import Context
from headnode.workflows.roster import Snapshot

# So many of one kind are named; a longer list is a link.
NAMED = 8


@dataclass(frozen=True)
class Concern:
    """Something a person should look at: which nodes, what, and where to go on."""

    weight: int
    title: str
    detail: str
    nodes: str = ""
    filter: str = ""
    page: str = "nodes"


@dataclass(frozen=True)
class Overview:
    total: int
    states: Sequence[tuple[State, int]]
    concerns: Sequence[Concern]
    running: Sequence[Deployment]


def overview(context: Context, snapshot: Snapshot) -> Overview:
    states = [(state, snapshot.states[state]) for state in State if snapshot.states[state]]
    found = sorted(concerns(context, snapshot), key=lambda concern: -concern.weight)
    return Overview(len(snapshot.members), states, found, context.inventory.running())


def concerns(context: Context, snapshot: Snapshot) -> Iterator[Concern]:
    for server in discovery.foreign_servers(context):
        yield Concern(100, "Another DHCP server answers", f"{server}; find it before nodes follow it", page="site")
    yield from failures(snapshot)
    yield from late(snapshot)
    if window := discovery.open_window(context):
        until = f"{window.until:%H:%M} UTC"
        yield Concern(20, "The discovery window is open", f"any machine gets an address until {until}", page="enrol")
    if unknown := discovery.seen(context):
        said = f"{counted(len(unknown), 'machine')} asked for an address and got none"
        yield Concern(10, "Unknown hardware", said, page="enrol")
    ready = [member.node.name for member in snapshot.members if member.node.state is State.ENROLLED]
    if ready:
        yield Concern(5, f"{counted(len(ready), 'node')} enrolled, nothing installed yet", "inspect or deploy them",
                      nodeset.fold(ready), "state=enrolled")  # fmt: skip


def failures(snapshot: Snapshot) -> Iterator[Concern]:
    """Failed nodes, those with the same reason together."""
    alike: dict[str, list[Node]] = {}
    for member in snapshot.members:
        if member.node.state is State.FAILED:
            alike.setdefault(member.node.reason or "no reason was recorded", []).append(member.node)
    for reason, nodes in alike.items():
        names = nodeset.fold(node.name for node in nodes)
        verb = "has" if len(nodes) == 1 else "have"
        title = f"{names if len(nodes) <= NAMED else counted(len(nodes), 'node')} {verb} failed"
        yield Concern(80 + min(len(nodes), 15), title, reason, names, "state=failed")


def late(snapshot: Snapshot) -> Iterator[Concern]:
    """Work that is past its time and that nobody has called a failure yet."""
    now = datetime.now(UTC)
    nodes = [member.node for member in snapshot.members if member.node.state in WORKING]
    if names := [node.name for node in nodes if node.deadline is not None and node.deadline < now]:
        yield Concern(60, f"{counted(len(names), 'node')} past the deadline",
                      "headnode-reconcile calls this a failure soon; when it does not, it is not running",
                      nodeset.fold(names), "")  # fmt: skip
