"""The ledger of UIDs and GIDs: one number has one owner for ever, whoever asks at the same time."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from headnode.errors import InvalidField, InvalidInput, Taken
from headnode.inventory.rows import chunks
from headnode.inventory.tables import numbers
from headnode.model import Holder, Numbered


def load(connection: Connection) -> list[Numbered]:
    rows = connection.execute(select(numbers).order_by(numbers.c.number))
    return [Numbered(row.number, Holder(row.kind), row.name, row.given, row.removed) for row in rows]


def reserve(
    connection: Connection, now: datetime, kind: Holder, wanted: Mapping[str, int | None], first: int, last: int
) -> dict[str, int]:
    """A number for each name, the one asked for or the next that nobody ever had. All of them or none.

    Somebody who has one keeps it: what was interrupted between here and the directory is simply done again.
    """
    known = load(connection)
    active = {entry.name: entry for entry in known if entry.removed is None}
    given: dict[str, int] = {}
    back: list[int] = []
    taken = {entry.number: entry for entry in known}
    for name, number in wanted.items():
        if (has := active.get(name)) is not None:
            given[name] = kept(has, kind, name, number)
        elif number is not None:
            if (holder := taken.get(number)) is not None:
                refuse_unless_theirs(holder, kind, name)
                back.append(number)
            if not first <= number <= last:
                hint = "directory.first_id and last_id in site.yaml say which numbers are given"
                raise InvalidField(f"number of {name}", number, f"use one from {first} to {last}", hint=hint)
            given[name] = number
            taken[number] = Numbered(number, kind, name, now)
    free = unused(first, last, {*taken, *given.values()})
    for name in wanted:
        if name not in given:
            given[name] = next_of(free, first, last)
    write(connection, now, kind, {name: given[name] for name in wanted if name not in active}, back)
    return given


def kept(has: Numbered, kind: Holder, name: str, number: int | None) -> int:
    if has.kind is not kind:
        raise Taken(f"'{name}' is the name of a {has.kind} already ({has.number}); use another name")
    if number not in (None, has.number):
        raise Taken(f"'{name}' has the number {has.number} already, and keeps it; {number} cannot be given too")
    return has.number


def refuse_unless_theirs(holder: Numbered, kind: Holder, name: str) -> None:
    """Somebody who was removed and comes back may have the number again: it is on all their files."""
    if holder.removed is not None and holder.name == name and holder.kind is kind:
        return
    until = f" until {holder.removed:%F}" if holder.removed else ""
    raise Taken(
        f"the number {holder.number} is the {holder.kind} {holder.name}'s{until}, and is never given to anybody else",
        hint="leave the number out to get the next free one",
    )


def unused(first: int, last: int, taken: Collection[int]) -> Iterator[int]:
    return (number for number in range(first, last + 1) if number not in taken)


def next_of(free: Iterator[int], first: int, last: int) -> int:
    found = next(free, None)
    if found is None:
        raise InvalidInput(
            f"every number from {first} to {last} has been given",
            hint="raise directory.last_id in site.yaml; numbers are never used twice",
        )
    return found


def write(connection: Connection, now: datetime, kind: Holder, given: Mapping[str, int], back: list[int]) -> None:
    if back:
        connection.execute(update(numbers).where(numbers.c.number.in_(back)).values(removed=None))
    rows = [
        {"number": number, "kind": kind.value, "name": name, "given": now}
        for name, number in given.items()
        if number not in back
    ]
    if rows:
        connection.execute(insert(numbers), rows)


def retire(connection: Connection, now: datetime, kind: Holder, names: Collection[str]) -> None:
    """They are gone; their numbers stay theirs."""
    for batch in chunks(names):
        mine = (numbers.c.kind == kind.value) & numbers.c.name.in_(batch) & numbers.c.removed.is_(None)
        connection.execute(update(numbers).where(mine).values(removed=now))
