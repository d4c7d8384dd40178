"""The history of nodes: finding one's way in it, and forgetting what is old.

A node may have a hundred thousand events. Its milestones are few, and an index of their own finds them without looking
at anything else.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from sqlalchemy import Select, delete, func, select, text, update

from headnode.inventory.engine import Store
from headnode.inventory.rows import chunks, event_from_row
from headnode.inventory.tables import MILESTONE, counters, events, nodes
from headnode.model import Event, Severity, State

# SQLite is told; it would take the larger index as often.
BY_MILESTONE = "INDEXED BY ix_events_milestone"
# The counter that says up to which event history has been forgotten.
FORGOTTEN = "forgotten"


class History(Store):
    def milestones(self, node: str, *, limit: int) -> list[Event]:
        """What was asked of a node and how that ended, the newest `limit` of it, oldest first."""
        query = among_milestones(select(events)).where(events.c.node == node)
        with self._reading() as connection:
            found = connection.execute(query.order_by(events.c.id.desc()).limit(limit)).all()
        return [event_from_row(row) for row in reversed(found)]

    def latest(self, node: str, kinds: Collection[str]) -> Event | None:
        """The newest of these milestones, however many others came after it."""
        query = among_milestones(select(events)).where(events.c.node == node, events.c.kind.in_(kinds))
        with self._reading() as connection:
            row = connection.execute(query.order_by(events.c.id.desc()).limit(1)).first()
        return event_from_row(row) if row else None

    def forgotten(self) -> int:
        """The number of the event up to which only milestones are left."""
        with self._reading() as connection:
            return connection.execute(select(counters.c.value).where(counters.c.name == FORGOTTEN)).scalar() or 0

    def newest(self, milestone: str, names: Collection[str]) -> dict[str, Event]:
        """Node → its newest milestone of this kind."""
        found: dict[str, Event] = {}
        with self._reading() as connection:
            for batch in chunks(names):
                numbers = among_milestones(select(func.max(events.c.id)))
                numbers = numbers.where(events.c.node.in_(batch), events.c.kind == milestone).group_by(events.c.node)
                listed = list(connection.execute(numbers).scalars())
                for row in connection.execute(select(events).where(events.c.id.in_(listed))):
                    found[row.node] = event_from_row(row)
        return found

    def onwards(self, node: str, first: int, *, limit: int) -> list[Event]:
        """The oldest `limit` events of a node from one on."""
        query = select(events).where(events.c.node == node, events.c.id >= first).order_by(events.c.id).limit(limit)
        with self._reading() as connection:
            return [event_from_row(row) for row in connection.execute(query)]

    def complaints(self, after: int, kinds: Collection[str], *, limit: int) -> list[Event]:
        """The newest `limit` errors of these kinds after an event, oldest first; none of nodes in maintenance, whose
        noise would hide what the others say."""
        quiet = select(nodes.c.name).where(nodes.c.state == State.MAINTENANCE.value)
        query = select(events).where(events.c.id > after, events.c.severity == Severity.ERROR.value)
        query = query.where(events.c.kind.in_(kinds), events.c.node.not_in(quiet))
        with self._reading() as connection:
            found = connection.execute(query.order_by(events.c.id.desc()).limit(limit)).all()
        return [event_from_row(row) for row in reversed(found)]

    def forget(self, before: datetime, *, most: int) -> int | None:
        """Go on for at most so many events, the oldest first; how many are gone, or nothing when all are newer.

        Milestones stay, and so does the newest event: SQLite would give its number to another. An event from the
        future was written while the clock was wrong, or the clock is wrong now: it stays, and nothing waits for it.
        """
        past = events.c.at <= datetime.now(UTC)
        with self._writing() as connection:
            done = int(connection.execute(select(counters.c.value).where(counters.c.name == FORGOTTEN)).scalar_one())
            newest = select(func.max(events.c.id)).scalar_subquery()
            query = select(events.c.id, events.c.at).where(events.c.id > done, events.c.id < newest, past)
            old = takewhile(lambda row: row.at < before, connection.execute(query.order_by(events.c.id).limit(most)))
            numbers = [row.id for row in old]
            if not numbers:
                return None
            # Said before it is done: the database refuses to delete anything newer (migration 0005).
            connection.execute(update(counters).where(counters.c.name == FORGOTTEN).values(value=numbers[-1]))
            gone = delete(events).where(events.c.id > done, events.c.id <= numbers[-1], past)
            return connection.execute(gone.where(text(f"NOT ({MILESTONE})"))).rowcount


def among_milestones(query: Select[Any]) -> Select[Any]:
    # Word for word as in the index: with parameters in it, no database could tell that the index holds all of them.
    return query.where(text(MILESTONE)).with_hint(events, BY_MILESTONE, "sqlite")
