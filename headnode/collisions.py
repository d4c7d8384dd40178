"""Local accounts, subordinate ids and owners of files, as a system's own files and programs tell them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

FIRST_PERSON, NOBODY = 1000, 65534


@dataclass(frozen=True)
class Owner:
    """Whose a file is, by number."""

    path: str
    uid: int


@dataclass(frozen=True)
class Local:
    """What one machine says of itself."""

    where: str
    users: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    # (whose, first, how many) of /etc/subuid
    subordinate: tuple[tuple[str, int, int], ...] = ()
    owners: tuple[Owner, ...] = ()
    allowed: tuple[str, ...] = ()
    # Whether it may have people of its own: a head node often has its administrator's account, from its installer.
    own_people: bool = False


@dataclass(frozen=True)
class Known:
    """What the directory and the ledger say."""

    users: Mapping[str, int]
    groups: Mapping[str, int]
    # Numbers of people who are gone, with their names.
    former: Mapping[int, str]
    first: int
    last: int


@dataclass(frozen=True)
class Finding:
    where: str
    message: str


def numbered(text: str) -> dict[str, int]:
    """Name → number, of passwd or group."""
    cells = (line.split(":") for line in text.splitlines())
    return {cell[0]: int(cell[2]) for cell in cells if len(cell) > 3 and cell[2].isascii() and cell[2].isdigit()}


def subordinate(text: str) -> tuple[tuple[str, int, int], ...]:
    cells = (line.split(":") for line in text.splitlines())
    return tuple((c[0], int(c[1]), int(c[2])) for c in cells if len(c) == 3 and c[1].isdigit() and c[2].isdigit())


def owners(text: str) -> tuple[Owner, ...]:
    """Of lines that `find -printf '%U %p\\n'` writes."""
    cells = (line.partition(" ") for line in text.splitlines())
    return tuple(Owner(path, int(uid)) for uid, _, path in cells if uid.isdigit() and path)


def of(known: Known, local: Local) -> Iterator[Finding]:
    """Everything that means one thing here and another in the directory."""
    by_number = {number: name for name, number in known.users.items()}
    groups_by_number = {number: name for name, number in known.groups.items()}
    yield from (Finding(local.where, message) for message in account_collisions(known, local, by_number))
    for name, number in local.groups.items():
        if name in known.groups and number != known.groups[name]:
            message = f"the local group {name} has GID {number}, the directory's has {known.groups[name]}"
            yield Finding(local.where, message)
        elif (holder := groups_by_number.get(number)) is not None and holder != name:
            yield Finding(local.where, f"the local group {name} has GID {number}, which is {holder}'s")
    yield from (Finding(local.where, message) for message in range_collisions(known, local))
    yield from (Finding(local.where, message) for message in owner_collisions(known, local, by_number))


def account_collisions(known: Known, local: Local, by_number: Mapping[int, str]) -> Iterator[str]:
    for name, number in local.users.items():
        if number == NOBODY:
            continue
        if name in known.users:
            yield f"the local account {name} (UID {number}) hides the directory's (UID {known.users[name]})"
        elif number in by_number:
            yield f"the local account {name} has UID {number}, which is {by_number[number]}'s"
        elif number in known.former:
            yield f"the local account {name} has UID {number}, which was {known.former[number]}'s and stays theirs"
        elif number >= FIRST_PERSON and not local.own_people and name not in local.allowed:
            yield f"the local account {name} has UID {number}; people belong in the directory"


def range_collisions(known: Known, local: Local) -> Iterator[str]:
    for name, first, count in local.subordinate:
        if first <= known.last and known.first < first + count:
            yield (
                f"/etc/subuid gives {name} the UIDs {first} to {first + count - 1}, which overlap the directory's "
                f"{known.first} to {known.last}"
            )


def owner_collisions(known: Known, local: Local, by_number: Mapping[int, str]) -> Iterator[str]:
    """Homes belong to whoever they are named after; anything else to somebody who is known."""
    for owner in local.owners:
        name = owner.path.rpartition("/")[2]
        if owner.uid == 0:
            continue
        expected = known.users.get(name)
        if expected is not None and owner.uid != expected:
            whose = by_number.get(owner.uid) or known.former.get(owner.uid) or "nobody"
            yield f"{owner.path} belongs to UID {owner.uid} ({whose}), not to {name} ({expected})"
        elif owner.uid in known.former:
            yield f"{owner.path} belongs to UID {owner.uid}, which was {known.former[owner.uid]}'s"
        elif owner.uid not in by_number and owner.uid >= FIRST_PERSON and owner.uid != NOBODY:
            yield f"{owner.path} belongs to UID {owner.uid}, whom nobody knows"


def ledger_collisions(
    users: Iterable[tuple[str, int]], groups: Iterable[tuple[str, int]], given: Mapping[int, tuple[str, str]]
) -> Iterator[Finding]:
    """Entries of the directory beside the numbers that were given: `given` has (kind, name) by number."""
    holders: dict[tuple[str, int], str] = {}
    for kind, entries in (("user", users), ("group", groups)):
        for name, number in entries:
            if (first := holders.get((kind, number))) is not None:
                yield Finding("directory", f"{first} and {name} have the same number {number}")
            holders.setdefault((kind, number), name)
            if number not in given:
                yield Finding("directory", f"the {kind} {name} has the number {number}, which Headnode did not give")
            elif given[number] != (kind, name):
                whose = " ".join(given[number])
                yield Finding("directory", f"the {kind} {name} has the number {number}, which is the {whose}'s")
