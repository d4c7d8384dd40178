"""Reading the inventory, and opening changes."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, ScalarSelect, func, select

from headnode.inventory import ledger
from headnode.inventory.accounts import Accounts
from headnode.inventory.changes import Change, digest
from headnode.inventory.engine import failures_explained, open_engine, sqlite_url
from headnode.inventory.history import History
from headnode.inventory.lead import Lead, take
from headnode.inventory.rows import chunks, deployment_from_row, event_from_row, load_nodes, sighting_from_row
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
    secrets,
    seen,
    tokens,
)
from headnode.model import Deployment, Event, Intent, Node, Numbered, Severity, Sighting, State


class Inventory:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # SQLite's transactions are like that by nature.
        snapshot = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
        self._readers = engine.execution_options(**snapshot)
        self.accounts = Accounts(engine)
        self.history = History(engine)

    @classmethod
    def open(cls, url: str | None, default: Path) -> "Inventory":
        """The database at a URL, or the SQLite file `default`."""
        return cls(open_engine(url or sqlite_url(default)))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def change(self, actor: str, cause: str, *, rehearsal: bool = False) -> Iterator[Change]:
        """One transaction: all of it happens, or nothing; in a rehearsal all of it is judged, and nothing happens."""
        with (
            failures_explained(self._engine),
            self._engine.connect().execution_options(writing=True) as connection,
            connection.begin() as transaction,
        ):
            yield Change(connection, actor, cause)
            if rehearsal:
                transaction.rollback()

    def lead(self, name: str) -> Lead | None:
        """The right to do what only one process of all head nodes may do, or nothing while another has it."""
        with failures_explained(self._engine):
            return take(self._engine, name)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """One moment of the inventory: a node that is enrolled meanwhile is seen whole later, never half now."""
        with failures_explained(self._engine), self._readers.connect() as connection, connection.begin():
            yield connection

    def nodes(self, names: Collection[str] | None = None, *, retired: bool = False) -> list[Node]:
        """All nodes, or those of these names; retired ones only when asked for."""
        with self._reading() as connection:
            if names is None:
                return load_nodes(connection, None if retired else nodes.c.state != State.RETIRED.value)
            found: list[Node] = []
            for batch in chunks(names):
                found += load_nodes(connection, nodes.c.name.in_(batch))
            return [node for node in found if retired or node.state is not State.RETIRED]

    def node(self, name: str) -> Node | None:
        found = self.nodes([name], retired=True)
        return found[0] if found else None

    def node_at(self, address: str) -> Node | None:
        """The node that has this address."""
        with self._reading() as connection:
            owner = select(nics.c.node_id).where(nics.c.address == address)
            found = load_nodes(connection, nodes.c.id.in_(owner))
        return found[0] if found else None

    def owner_of(self, mac: str) -> str | None:
        """The name of the node that has this MAC."""
        query = select(nodes.c.name).join(nics, nodes.c.id == nics.c.node_id).where(nics.c.mac == mac)
        with self._reading() as connection:
            return connection.execute(query).scalar()

    def newest(self) -> int:
        """The revision of the node that changed last: cheap to ask, to see whether anything changed."""
        with self._reading() as connection:
            return int(connection.execute(select(func.max(nodes.c.revision))).scalar() or 0)

    def pulse(self) -> tuple[int, int]:
        """Two numbers that grow with every change and every event: cheap enough to ask several times a second."""
        with self._reading() as connection:
            revision = connection.execute(select(counters.c.value).where(counters.c.name == "revision")).scalar_one()
            return int(revision), int(connection.execute(select(func.max(events.c.id))).scalar() or 0)

    def touched_since(self, revision: int, event: int, *, limit: int) -> list[str]:
        """Names of nodes that changed, or that something happened to, since these two numbers."""
        changed = select(nodes.c.name).where(nodes.c.revision > revision)
        happened = select(events.c.node).where(events.c.id > event, events.c.node.is_not(None))
        with self._reading() as connection:
            return sorted(connection.execute(changed.union(happened).limit(limit)).scalars())

    def running(self) -> list[Deployment]:
        """Work that is under way, the oldest first."""
        query = select(deployments, nodes.c.name).join(nodes, nodes.c.id == deployments.c.node_id)
        query = query.where(deployments.c.finished.is_(None)).order_by(deployments.c.id)
        with self._reading() as connection:
            return [deployment_from_row(row, row.name) for row in connection.execute(query)]

    def names(self, prefix: str = "") -> list[str]:
        """Names only: cheap enough for shell completion."""
        with self._reading() as connection:
            chosen = select(nodes.c.name).where(nodes.c.state != State.RETIRED.value).order_by(nodes.c.id)
            return list(connection.execute(chosen.where(nodes.c.name.startswith(prefix, autoescape=True))).scalars())

    def count(self) -> int:
        with self._reading() as connection:
            chosen = select(func.count()).select_from(nodes).where(nodes.c.state != State.RETIRED.value)
            return int(connection.execute(chosen).scalar_one())

    def groups(self) -> dict[str, list[str]]:
        """Group → names of its nodes."""
        found: dict[str, list[str]] = {}
        query = (
            select(group_members.c.group, nodes.c.name)
            .join(nodes, nodes.c.id == group_members.c.node_id)
            .where(nodes.c.state != State.RETIRED.value)
            .order_by(group_members.c.group, nodes.c.id)
        )
        with self._reading() as connection:
            for group, name in connection.execute(query):
                found.setdefault(group, []).append(name)
        return found

    def events(
        self, node: str | Collection[str] | None = None, *, limit: int = 100, after: int = 0, before: int | None = None
    ) -> list[Event]:
        """The newest `limit` events, oldest first; of one node, of several, or of everything."""
        query = select(events).where(events.c.id > after).order_by(events.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(events.c.id < before)
        if node is not None:
            query = query.where(events.c.node.in_([node] if isinstance(node, str) else node))
        with self._reading() as connection:
            return [event_from_row(row) for row in reversed(connection.execute(query).all())]

    def newest_event(self) -> int:
        with self._reading() as connection:
            return int(connection.execute(select(func.max(events.c.id))).scalar() or 0)

    def news(self, after: int, severities: Collection[Severity], limit: int) -> list[Event]:
        """The oldest `limit` events of these severities after one, oldest first."""
        query = select(events).where(events.c.id > after, events.c.severity.in_([s.value for s in severities]))
        with self._reading() as connection:
            return [event_from_row(row) for row in connection.execute(query.order_by(events.c.id).limit(limit))]

    def head_events(self, *, limit: int = 100) -> list[Event]:
        """The newest events that concern no single node, oldest first."""
        query = select(events).where(events.c.node.is_(None)).order_by(events.c.id.desc()).limit(limit)
        with self._reading() as connection:
            return [event_from_row(row) for row in reversed(connection.execute(query).all())]

    def states(self) -> dict[str, int]:
        """How many nodes are in each state."""
        query = select(nodes.c.state, func.count()).group_by(nodes.c.state)
        with self._reading() as connection:
            return {state: int(count) for state, count in connection.execute(query)}

    def in_state(self, *states: State) -> list[Node]:
        with self._reading() as connection:
            return load_nodes(connection, nodes.c.state.in_([state.value for state in states]))

    # What publishing needs to know: which nodes changed, and which file is there because of whom.

    def changed_since(self, revision: int) -> tuple[int, list[Node]]:
        """The revision now, and the nodes changed after `revision`; retired ones too: their files have to go."""
        with self._reading() as connection:
            query = select(counters.c.value).where(counters.c.name == "revision")
            now = int(connection.execute(query).scalar_one())
            return now, load_nodes(connection, nodes.c.revision > revision)

    def published_files(self, node_ids: Collection[int] | None = None) -> dict[str, int]:
        """Path → node id (0 for the site's own) of published files, of these nodes or of everything."""
        query = select(published.c.path, published.c.node_id)
        with self._reading() as connection:
            if node_ids is None:
                return {row.path: row.node_id for row in connection.execute(query)}
            return {
                row.path: row.node_id
                for batch in chunks(node_ids)
                for row in connection.execute(query.where(published.c.node_id.in_(batch)))
            }

    def deployment(self, node: Node) -> Deployment | None:
        """The newest piece of work on a node, running or over."""
        found = self.deployments([node], limit_each=1)
        return found[0] if found else None

    def deployments(self, of: Collection[Node], *, limit_each: int = 20) -> list[Deployment]:
        """The newest first, for each node."""
        found: list[Deployment] = []
        with self._reading() as connection:
            for node in of:
                query = select(deployments).where(deployments.c.node_id == node.id).order_by(deployments.c.id.desc())
                rows = connection.execute(query.limit(limit_each))
                found += [deployment_from_row(row, node.name) for row in rows]
        return found

    def running_deployment(
        self, address: str, session: str | None = None, *, or_done: bool = False
    ) -> tuple[Deployment, Node] | None:
        """What is under way for the node at an address; with a session, only if that session is its agent's.

        Only the newest counts: the agent of a deployment that was replaced has nothing more to say.
        """
        node = self.node_at(address)
        if node is None:
            return None
        running = deployments.c.finished.is_(None) & (deployments.c.deadline > datetime.now(UTC))
        query = select(deployments).where(deployments.c.id == newest_deployment(node))
        query = query.where(running | (deployments.c.result == "done") if or_done else running)
        if session is not None:
            query = query.where(deployments.c.session == digest(session))
        with self._reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else (deployment_from_row(row, node.name), node)

    def installed(self, of: Collection[Node]) -> set[str]:
        """Names of those whose newest installation was finished."""
        names = {node.id: node.name for node in of}
        newest = select(func.max(deployments.c.id)).where(deployments.c.intent == Intent.DEPLOY.value)
        found: set[str] = set()
        with self._reading() as connection:
            for batch in chunks(names):
                numbers = newest.where(deployments.c.node_id.in_(batch)).group_by(deployments.c.node_id)
                query = select(deployments.c.node_id).where(deployments.c.id.in_(numbers))
                found |= {names[n] for n in connection.execute(query.where(deployments.c.result == "done")).scalars()}
        return found

    def deployed_disks(self, node: Node) -> dict[str, str]:
        """The layout's names for disks → serial numbers, as they were at the last deployment that was finished."""
        query = (
            select(deployments.c.disks)
            .where(deployments.c.node_id == node.id, deployments.c.result == "done")
            .where(deployments.c.intent == Intent.DEPLOY.value)
            .order_by(deployments.c.id.desc())
        )
        with self._reading() as connection:
            found = connection.execute(query).scalar()
            return dict(found or {})

    def reporting_node(self, address: str, token: str) -> Node | None:
        """The node that may report with this token from this address: that of its newest installation.

        Rescuing or inspecting it later changes nothing about what is installed.
        """
        node = self.node_at(address)
        if node is None:
            return None
        query = select(tokens.c.digest).where(
            tokens.c.digest == digest(token),
            tokens.c.purpose == "report",
            tokens.c.address == address,
            tokens.c.expires > datetime.now(UTC),
            tokens.c.deployment_id == newest_deployment(node, Intent.DEPLOY),
        )
        with self._reading() as connection:
            return node if connection.execute(query).first() else None

    def overdue(self) -> list[Node]:
        """Nodes whose working state has passed its deadline."""
        with self._reading() as connection:
            return load_nodes(connection, nodes.c.deadline <= datetime.now(UTC))

    def hardware(self, node: Node) -> dict[str, Any] | None:
        with self._reading() as connection:
            found = connection.execute(select(hardware.c.facts).where(hardware.c.node_id == node.id)).scalar()
            return None if found is None else dict(found)

    def secret(self, name: str) -> str | None:
        """A sealed secret; headnode.vault opens it."""
        with self._reading() as connection:
            return connection.execute(select(secrets.c.sealed).where(secrets.c.name == name)).scalar()

    def secrets(self, prefix: str) -> dict[str, str]:
        """Sealed secrets whose names begin like that, by the rest of their names."""
        query = select(secrets.c.name, secrets.c.sealed).where(secrets.c.name.startswith(prefix, autoescape=True))
        with self._reading() as connection:
            return {name.removeprefix(prefix): sealed for name, sealed in connection.execute(query)}

    def numbers(self) -> list[Numbered]:
        """Every UID and GID that was ever given, in order."""
        with self._reading() as connection:
            return ledger.load(connection)

    def seen(self) -> list[Sighting]:
        """Unknown hardware, the newest last."""
        with self._reading() as connection:
            rows = connection.execute(select(seen).order_by(seen.c.last))
            return [sighting_from_row(row) for row in rows]

    def owners(self) -> tuple[dict[str, str], dict[str, str]]:
        """MAC → node and address → node, of every NIC and BMC."""
        queries = [
            select(t.c.mac, t.c.address, nodes.c.name).join(nodes, nodes.c.id == t.c.node_id) for t in (nics, bmcs)
        ]
        with self._reading() as connection:
            rows = [row for query in queries for row in connection.execute(query)]
        return {row.mac: row.name for row in rows if row.mac}, {row.address: row.name for row in rows if row.address}

    def fact(self, name: str, default: str = "") -> str:
        with self._reading() as connection:
            found = connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()
            return default if found is None else str(found)


def newest_deployment(node: Node, intent: Intent | None = None) -> "ScalarSelect[int]":
    query = select(func.max(deployments.c.id)).where(deployments.c.node_id == node.id)
    if intent is not None:
        query = query.where(deployments.c.intent == intent.value)
    return query.scalar_subquery()
