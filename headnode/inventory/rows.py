"""Between rows and the model: nothing but translation."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.sql import ColumnElement

from headnode.inventory.tables import bmcs, group_members, nics, nodes
from headnode.model import BmcAccess, Deployment, Event, Intent, Nic, Node, Severity, Sighting, State

# SQLite takes 32,766 parameters in a statement; a few hundred keep the statements small.
CHUNK = 500


def load_nodes(connection: Connection, condition: ColumnElement[bool] | None = None) -> list[Node]:
    """Nodes with their NICs, BMC and groups, in the order they were enrolled."""
    chosen = select(nodes.c.id).where(condition) if condition is not None else None
    node_rows = select(nodes).order_by(nodes.c.id)
    if condition is not None:
        node_rows = node_rows.where(condition)

    def children(table: Any) -> Any:
        rows = select(table).order_by(table.c[0])
        return rows if chosen is None else rows.where(table.c.node_id.in_(chosen))

    found_nics: dict[int, list[Nic]] = defaultdict(list)
    for row in connection.execute(children(nics)):
        found_nics[row.node_id].append(Nic(row.mac, row.network, row.address, row.name))
    found_bmcs = {
        row.node_id: BmcAccess(row.address, row.mac, row.sealed_password) for row in connection.execute(children(bmcs))
    }
    found_groups: dict[int, list[str]] = defaultdict(list)
    for row in connection.execute(children(group_members)):
        found_groups[row.node_id].append(row.group)
    return [
        node_from_row(row, found_nics[row.id], found_bmcs.get(row.id), found_groups[row.id])
        for row in connection.execute(node_rows)
    ]


def node_from_row(row: Any, nics: Sequence[Nic], bmc: BmcAccess | None, groups: Sequence[str]) -> Node:
    return Node(
        id=row.id,
        name=row.name,
        profile=row.profile,
        nics=tuple(nics),
        bmc=bmc,
        state=State(row.state),
        intent=Intent(row.intent),
        rack=row.rack,
        position=row.position,
        groups=tuple(sorted(groups)),  # here, because databases sort by collations of their own
        locked=row.locked,
        settings=row.settings,
        phase=row.phase,
        reason=row.reason,
        deadline=row.deadline,
        revision=row.revision,
    )


def node_to_row(node: Node, revision: int) -> dict[str, Any]:
    return {
        "name": node.name,
        "profile": node.profile,
        "state": node.state.value,
        "intent": node.intent.value,
        "rack": node.rack,
        "position": node.position,
        "locked": node.locked,
        "settings": dict(node.settings),
        "phase": node.phase,
        "reason": node.reason,
        "deadline": node.deadline,
        "revision": revision,
    }


def event_from_row(row: Any) -> Event:
    return Event(
        id=row.id,
        at=row.at,
        node=row.node,
        kind=row.kind,
        severity=Severity(row.severity),
        actor=row.actor,
        cause=row.cause,
        message=row.message,
        data=row.data,
    )


def event_to_row(event: Event, now: datetime) -> dict[str, Any]:
    return {
        "at": event.at or now,
        "node": event.node,
        "kind": event.kind,
        "severity": event.severity.value,
        "actor": event.actor,
        "cause": event.cause,
        "message": event.message,
        "data": dict(event.data),
    }


def deployment_from_row(row: Any, node: str) -> Deployment:
    return Deployment(
        node=node,
        intent=Intent(row.intent),
        started=row.started,
        deadline=row.deadline,
        image=row.image,
        consent=tuple(row.consent),
        step=row.step,
        percent=row.percent,
        received=row.received,
        total=row.total,
        finished=row.finished,
        result=row.result,
        reason=row.reason,
        id=row.id,
    )


def sighting_from_row(row: Any) -> Sighting:
    return Sighting(row.mac, row.first, row.last, row.architecture, row.client_id)


def chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == CHUNK:
            yield batch
            batch = []
    if batch:
        yield batch
