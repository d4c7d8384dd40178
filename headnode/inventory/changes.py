"""Changing the inventory: everything here runs inside one transaction."""

import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, null, select, update
from sqlalchemy.exc import IntegrityError

from headnode.errors import Taken
from headnode.inventory import ledger
from headnode.inventory.rows import chunks, event_to_row, load_nodes, node_to_row
from headnode.inventory.tables import (
    bmcs,
    counters,
    deployments,
    events,
    facts,
    group_members,
    hardware,
    nics,
    nodes,
    published,
    seen,
    tokens,
)
from headnode.inventory.tables import secrets as secret_texts
from headnode.model import Deployment, Event, Holder, Intent, Node, Severity, Sighting

# As long as the deployment is the newest: a node may be asked how it is years later.
REPORTS_ACCEPTED_FOR = timedelta(days=3650)


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

    def start_deployment(
        self, node: Node, intent: Intent, deadline: datetime, image: str | None = None, consent: Collection[str] = ()
    ) -> Deployment:
        """A new piece of work; what was still open for that node is over."""
        self.close_deployments(node, "replaced", f"a new {intent} was asked for")
        values = {"node_id": node.id, "intent": intent.value, "image": image, "consent": sorted(consent)}
        insertion = insert(deployments).values(**values, started=self.now, deadline=deadline)
        number = int(self._connection.execute(insertion.returning(deployments.c.id)).scalar_one())
        return Deployment(node.name, intent, self.now, deadline, image, tuple(sorted(consent)), id=number)

    def close_deployments(self, node: Node, result: str, reason: str) -> None:
        step = update(deployments).where(deployments.c.node_id == node.id, deployments.c.finished.is_(None))
        self._connection.execute(step.values(finished=self.now, result=result, reason=reason))

    def issue_token(self, deployment: Deployment, address: str) -> str:
        """A one-time token that opens a deployment; it is returned once, and only its digest is kept."""
        return self._new_token(deployment, address, "claim", deployment.deadline)

    def issue_report_token(self, deployment: Deployment, address: str) -> str:
        """What the installed system shows when it reports how it is; it opens nothing."""
        return self._new_token(deployment, address, "report", self.now + REPORTS_ACCEPTED_FOR)

    def tokens_issued(self, deployment: Deployment) -> int:
        query = select(func.count()).select_from(tokens).where(tokens.c.deployment_id == deployment.id)
        return int(self._connection.execute(query).scalar_one())

    def tokens_used(self, deployment: Deployment) -> int:
        """How often an agent took up this work."""
        used = (tokens.c.deployment_id == deployment.id) & tokens.c.used.is_not(None)
        return int(self._connection.execute(select(func.count()).select_from(tokens).where(used)).scalar_one())

    def _new_token(self, deployment: Deployment, address: str, purpose: str, expires: datetime) -> str:
        token = new_token()
        values = {"deployment_id": deployment.id, "address": address, "purpose": purpose, "expires": expires}
        self._connection.execute(insert(tokens).values(digest=digest(token), **values))
        return token

    def claim_token(self, token: str, address: str) -> tuple[int, str] | None:
        """The deployment a token stands for and a session for its agent: from the right address, in time, once."""
        running = select(deployments.c.id).where(deployments.c.finished.is_(None), deployments.c.deadline > self.now)
        step = (
            update(tokens)
            .where(tokens.c.digest == digest(token), tokens.c.address == address, tokens.c.purpose == "claim")
            .where(tokens.c.used.is_(None), tokens.c.expires > self.now, tokens.c.deployment_id.in_(running))
            .values(used=self.now)
            .returning(tokens.c.deployment_id)
        )
        found = self._connection.execute(step).scalar()
        if found is None:
            return None
        session = new_token()
        self._connection.execute(
            update(deployments)
            .where(deployments.c.id == found)
            .values(session=digest(session), step=None, percent=None, received=None, total=None)
        )
        return int(found), session

    def progress(
        self, number: int, step: str | None, percent: int | None, received: int | None = None, total: int | None = None
    ) -> None:
        """How far it is; a step that counts no bytes leaves none to be shown."""
        if step is not None or percent is not None:
            values = {"step": step, "percent": percent, "received": received, "total": total}
            self._connection.execute(update(deployments).where(deployments.c.id == number).values(values))

    def remember_disks(self, number: int, serials: Mapping[str, str]) -> None:
        """Which disks a deployment is about to write, by the layout's names for them."""
        step = update(deployments).where(deployments.c.id == number)
        self._connection.execute(step.values(disks=dict(serials)))

    def forget_disks(self, of: Collection[Node]) -> None:
        """These machines are gone: another one of the same name has disks of its own, and nothing on them yet."""
        for batch in chunks(node.id for node in of):
            gone = update(deployments).where(deployments.c.node_id.in_(batch))
            self._connection.execute(gone.values(disks=null()))
            self._connection.execute(gone.where(deployments.c.result == "done").values(result="retired"))

    def finish_deployment(self, number: int, result: str, reason: str | None = None) -> bool:
        """False when it had been over before."""
        step = update(deployments).where(deployments.c.id == number, deployments.c.finished.is_(None))
        done = self._connection.execute(step.values(finished=self.now, result=result, reason=reason))
        return done.rowcount == 1

    def remember_hardware(self, node: Node, found: Mapping[str, Any]) -> None:
        self._connection.execute(delete(hardware).where(hardware.c.node_id == node.id))
        self._connection.execute(insert(hardware).values(node_id=node.id, at=self.now, facts=dict(found)))

    def set_secret(self, name: str, sealed: str) -> None:
        self._connection.execute(delete(secret_texts).where(secret_texts.c.name == name))
        self._connection.execute(insert(secret_texts).values(name=name, sealed=sealed))

    def add_secret(self, name: str, sealed: str) -> None:
        """Keep a sealed secret, unless there is one of that name already."""
        known = select(secret_texts.c.name).where(secret_texts.c.name == name)
        if self._connection.execute(known).first() is None:
            self._connection.execute(insert(secret_texts).values(name=name, sealed=sealed))

    def forget_secrets(self, prefix: str) -> None:
        """Those whose names begin like that."""
        named = secret_texts.c.name.startswith(prefix, autoescape=True)
        self._connection.execute(delete(secret_texts).where(named))

    # UIDs and GIDs

    def reserve_numbers(self, kind: Holder, wanted: Mapping[str, int | None], first: int, last: int) -> dict[str, int]:
        """Name → the number it has from now on; None asks for the next free one."""
        return ledger.reserve(self._connection, self.now, kind, wanted, first, last)

    def retire_numbers(self, kind: Holder, names: Collection[str]) -> None:
        ledger.retire(self._connection, self.now, kind, names)

    # What publishing has done

    def remember_published(self, written: Mapping[str, int], removed: Collection[str]) -> None:
        for batch in chunks([*written, *removed]):
            self._connection.execute(delete(published).where(published.c.path.in_(batch)))
        self._insert(published, ({"path": path, "node_id": node} for path, node in written.items()))

    def set_fact(self, name: str, value: str) -> None:
        self._connection.execute(delete(facts).where(facts.c.name == name))
        self._connection.execute(insert(facts).values(name=name, value=value))


def new_token() -> str:
    return secrets.token_urlsafe(32)


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
