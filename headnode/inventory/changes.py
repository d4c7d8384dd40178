"""Changing the inventory: everything here runs inside one transaction."""

import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from headnode.errors import Taken
from headnode.inventory.rows import chunks, event_to_row, load_nodes, node_to_row
from headnode.inventory.tables import (
    bmcs,
    counters,
    deployments,
    events,
    facts,
    group_members,
    nics,
    nodes,
    published,
    seen,
    tokens,
)
from headnode.model import Deployment, Event, Node, Severity, Sighting


class Change:
    """An open transaction. Its first act takes the row every writer takes, so writers queue instead of racing."""

    def __init__(self, connection: Connection, actor: str, cause: str) -> None:
        self._connection = connection
        self.actor = actor
        self.cause = cause
        self.now = datetime.now(UTC)
        step = update(counters).where(counters.c.name == "revision").values(value=counters.c.value + 1)
        self.revision = int(connection.execute(step.returning(counters.c.value)).scalar_one())

    # Nodes

    def nodes(self, names: Collection[str] | None = None) -> list[Node]:
        """All nodes (retired ones too), or those of these names, as they are inside this transaction."""
        if names is None:
            return load_nodes(self._connection)
        return [node for batch in chunks(names) for node in load_nodes(self._connection, nodes.c.name.in_(batch))]

    def add(self, new: Collection[Node]) -> None:
        if not new:
            return
        with refusing_duplicates():
            self._connection.execute(insert(nodes), [node_to_row(node, self.revision) for node in new])
            self._add_parts(new)

    def replace(self, changed: Collection[Node]) -> None:
        """Write these nodes as they are now; what they had before is gone."""
        if not changed:
            return
        ids = [node.id for node in changed]
        with refusing_duplicates():
            # All parts go before any come back, so that two nodes can swap a MAC or an address.
            for table in (nics, bmcs, group_members):
                for batch in chunks(ids):
                    self._connection.execute(delete(table).where(table.c.node_id.in_(batch)))
            for node in changed:
                self._connection.execute(
                    update(nodes).where(nodes.c.id == node.id).values(node_to_row(node, self.revision))
                )
            self._add_parts(changed)

    def _add_parts(self, changed: Collection[Node]) -> None:
        ids: dict[str, int] = {}
        for batch in chunks(node.name for node in changed):
            query = select(nodes.c.name, nodes.c.id).where(nodes.c.name.in_(batch))
            ids.update({row.name: row.id for row in self._connection.execute(query)})
        self._insert(
            nics,
            (
                {
                    "node_id": ids[n.name],
                    "network": c.network,
                    "mac": c.mac,
                    "address": c.address,
                    "name": c.name,
                }
                for n in changed
                for c in n.nics
            ),
        )
        self._insert(
            bmcs,
            (
                {
                    "node_id": ids[n.name],
                    "address": n.bmc.address,
                    "mac": n.bmc.mac,
                    "sealed_password": n.bmc.sealed_password,
                }
                for n in changed
                if n.bmc
            ),
        )
        self._insert(group_members, ({"node_id": ids[n.name], "group": g} for n in changed for g in n.groups))

    def _insert(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
        listed = list(rows)
        if listed:
            self._connection.execute(insert(table), listed)

    # History

    def record(
        self,
        kind: str,
        message: str,
        *,
        node: str | None = None,
        severity: Severity = Severity.INFO,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        self.record_all([Event(kind, message, self.actor, self.cause, node, severity, data or {})])

    def record_all(self, happened: Iterable[Event]) -> None:
        self._insert(events, (event_to_row(event, self.now) for event in happened))

    def record_seen(self, sightings: Iterable[Sighting]) -> None:
        """Remember hardware that asked; what was known of it before is kept unless there is something newer."""
        for found in sightings:
            known = {"last": found.last, "architecture": found.architecture, "client_id": found.client_id}
            step = update(seen).where(seen.c.mac == found.mac)
            done = self._connection.execute(step.values({key: value for key, value in known.items() if value}))
            if done.rowcount == 0:
                self._connection.execute(insert(seen).values(mac=found.mac, first=found.first, **known))

    def forget_seen(self, macs: Collection[str]) -> None:
        for batch in chunks(macs):
            self._connection.execute(delete(seen).where(seen.c.mac.in_(batch)))

    # Deployments and their one-time tokens

    def start_deployment(self, node: Node, image: str, deadline: datetime) -> tuple[Deployment, str]:
        """A new deployment and its token; the token is returned once and only its digest is kept."""
        values = {"node_id": node.id, "image": image, "started": self.now, "deadline": deadline}
        number = self._connection.execute(insert(deployments).values(values).returning(deployments.c.id)).scalar_one()
        token = secrets.token_urlsafe(32)
        self._connection.execute(
            insert(tokens).values(
                digest=digest(token), deployment_id=number, address=node.address or "", expires=deadline
            )
        )
        return Deployment(node.name, image, self.now, deadline, id=number), token

    def claim_token(self, token: str, address: str) -> int | None:
        """The deployment a token stands for, once: from the right address, in time, and never again."""
        step = (
            update(tokens)
            .where(tokens.c.digest == digest(token), tokens.c.address == address)
            .where(tokens.c.used.is_(None), tokens.c.expires > self.now)
            .values(used=self.now)
            .returning(tokens.c.deployment_id)
        )
        found = self._connection.execute(step).scalar()
        return None if found is None else int(found)

    def finish_deployment(self, number: int, result: str, reason: str | None = None) -> None:
        step = update(deployments).where(deployments.c.id == number, deployments.c.finished.is_(None))
        self._connection.execute(step.values(finished=self.now, result=result, reason=reason))

    # What publishing has done

    def remember_published(self, written: Mapping[str, int], removed: Collection[str]) -> None:
        for batch in chunks([*written, *removed]):
            self._connection.execute(delete(published).where(published.c.path.in_(batch)))
        self._insert(published, ({"path": path, "node_id": node} for path, node in written.items()))

    def set_fact(self, name: str, value: str) -> None:
        self._connection.execute(delete(facts).where(facts.c.name == name))
        self._connection.execute(insert(facts).values(name=name, value=value))


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class refusing_duplicates:
    """The database's own refusal in our words. Workflows check first and name both nodes; this is the last line."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, IntegrityError):
            what = " ".join(str(error.orig).split())
            raise Taken(f"another node has that name, MAC or address already ({what})") from error
