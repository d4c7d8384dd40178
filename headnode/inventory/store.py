"""Reading the inventory, and opening changes."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, func, select

from headnode.inventory.changes import Change
from headnode.inventory.engine import failures_explained, open_engine, sqlite_url
from headnode.inventory.rows import chunks, event_from_row, load_nodes, sighting_from_row
from headnode.inventory.tables import counters, events, facts, group_members, nics, nodes, published, seen
from headnode.model import Event, Node, Sighting, State


class Inventory:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # SQLite's transactions are like that by nature.
        snapshot = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
        self._readers = engine.execution_options(**snapshot)

    @classmethod
    def open(cls, url: str | None, default: Path) -> "Inventory":
        """The database at a URL, or the SQLite file `default`."""
        return cls(open_engine(url or sqlite_url(default)))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def change(self, actor: str, cause: str) -> Iterator[Change]:
        """One transaction: all of it happens, or nothing."""
        with (
            failures_explained(self._engine),
            self._engine.connect().execution_options(writing=True) as connection,
            connection.begin(),
        ):
            yield Change(connection, actor, cause)

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

    def events(self, node: str | None = None, *, limit: int = 100, after: int = 0) -> list[Event]:
        """The newest `limit` events, oldest first; of one node, or of everything."""
        query = select(events).where(events.c.id > after).order_by(events.c.id.desc()).limit(limit)
        if node is not None:
            query = query.where(events.c.node == node)
        with self._reading() as connection:
            return [event_from_row(row) for row in reversed(connection.execute(query).all())]

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
                path: node
                for batch in chunks(node_ids)
                for path, node in connection.execute(query.where(published.c.node_id.in_(batch)))
            }

    def seen(self) -> list[Sighting]:
        """Unknown hardware, the newest last."""
        with self._reading() as connection:
            rows = connection.execute(select(seen).order_by(seen.c.last))
            return [sighting_from_row(row) for row in rows]

    def owners(self) -> tuple[dict[str, str], dict[str, str]]:
        """MAC → node and address → node, of every NIC."""
        query = select(nics.c.mac, nics.c.address, nodes.c.name).join(nodes, nodes.c.id == nics.c.node_id)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return {row.mac: row.name for row in rows}, {row.address: row.name for row in rows if row.address}

    def fact(self, name: str, default: str = "") -> str:
        with self._reading() as connection:
            found = connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()
            return default if found is None else str(found)
