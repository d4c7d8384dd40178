"""People and groups: added once here, known on every node. The directory holds them, the ledger holds their numbers.

A number is reserved first and the entry made afterwards: whatever is interrupted in between is finished by running the
same command again, and no two people ever share a number.
"""

import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headnode import homes, vault
from headnode.directory.client import Directory, other_directory, our_directory
from headnode.directory.entries import Group, Person, foundation, person_attributes, vocabulary
from headnode.errors import InvalidInput, Taken, shown
from headnode.ldaptree import Tree
from headnode.model import Holder
from headnode.workflows import personfields
from headnode.workflows.context import Context
from headnode.workflows.personfields import Wish

READER = "directory/reader"
LAID = "directory_foundation"
SHORTEST_PASSWORD = 10


@contextmanager
def directory(context: Context, *, writing: bool = False) -> Iterator[Directory]:
    """The site's directory: our own with everything in it that it needs, or somebody else's to read."""
    site, tree = context.site, Tree.of(context.site)
    if site.directory.mode == "internal":
        with our_directory(context.paths, tree) as found:
            lay_foundation(context, found)
            yield found
        return
    if writing:
        raise InvalidInput(
            "directory.mode in site.yaml is external, so Headnode reads the directory and never changes it",
            hint=f"make the change at {site.directory.uri}",
        )
    file, ca = site.directory.bind_password_file, site.directory.ca_file
    password = vault.read_password(context.paths.root / file.lstrip("/")) if file else None
    trusted = str(context.paths.root / ca.lstrip("/")) if ca else None
    with other_directory(site.directory, tree, vocabulary(site.directory), trusted, password) as found:
        yield found


def lay_foundation(context: Context, found: Directory) -> None:
    """The branches, the password policy, the reader's account and the rule for sudo, as site.yaml wants them now."""
    site, admin = context.site, context.site.directory.admin_group
    digest = hashlib.sha256(repr(foundation(site, found.tree, 0)).encode()).hexdigest()
    if context.inventory.fact(LAID) == digest and found.has(found.tree.sudo_rule):
        return
    number = reserve(context, Holder.GROUP, {admin: None})[admin] if admin else 0
    found.lay_foundation(foundation(site, found.tree, number))
    found.add_service(found.tree.reader, reader_password(context))
    with context.inventory.change(context.actor, context.cause) as change:
        change.set_fact(LAID, digest)


def reader_password(context: Context) -> str:
    """Of the account that other programs of the site read with; made once, sealed ever after."""
    if context.inventory.secret(READER) is None:
        made = vault.seal(secrets.token_urlsafe(24), context.paths.secret_key)
        with context.inventory.change(context.actor, context.cause) as change:
            change.add_secret(READER, made)
    return vault.unseal(context.inventory.secret(READER) or "", context.paths.secret_key)


def add(context: Context, wish: Wish, password: str | None = None, *, rehearsal: bool = False) -> Person:
    """One person: number, entry, groups, home and password, in an order that can be taken up again anywhere.

    A rehearsal, here and below, judges everything, up to the first change and without it.
    """
    personfields.judge(wish)
    if password is not None:
        judge_password(password)
    with directory(context, writing=True) as found:
        require_groups(found, wish.groups)
        there = next(found.people([wish.name]), None)
        if there is not None and not wish.is_of(there):
            raise Taken(f"'{wish.name}' is in the directory already, with UID {there.number}",
                        hint=f"'headnode user set {wish.name}' changes them")  # fmt: skip
        wanted = {wish.name: wish.number}
        number = there.number if there else reserve(context, Holder.USER, wanted, rehearsal=rehearsal)[wish.name]
        person = wish.person(number)
        if there is None:
            refuse_strangers(found, person)
        if rehearsal:
            return person
        if there is None:
            found.add_person(person)
            record(context, "user.add", f"added {person.name} with UID {person.number}")
            if password is not None:
                found.set_password(found.tree.person(person.name), password)
        # Also when the same was asked for before, and was interrupted or refused on the way.
        for group in person.groups:
            found.change_members(group, add=[person.name])
    make_home(context, person)
    return person


def former_number(context: Context, person: Person) -> int | None:
    """What somebody of that name had before they were removed."""
    same = [entry for entry in context.inventory.numbers() if entry.name == person.name and entry.removed]
    return same[-1].number if same else None


def reserve(
    context: Context, kind: Holder, wanted: Mapping[str, int | None], *, rehearsal: bool = False
) -> dict[str, int]:
    limits = context.site.directory
    with context.inventory.change(context.actor, context.cause, rehearsal=rehearsal) as change:
        return change.reserve_numbers(kind, wanted, limits.first_id, limits.last_id)


def refuse_strangers(found: Directory, person: Person) -> None:
    """Somebody may have written to the directory without asking us for a number."""
    holder = found.holder(person.number)
    if holder is not None and holder.name != person.name:
        raise Taken(
            f"the directory has '{holder.name}' with UID {person.number}, which Headnode did not give",
            hint="'headnode user audit' lists these; give a number of your own with --uid",
        )


def require_groups(found: Directory, names: Sequence[str]) -> None:
    known = {group.name for group in found.groups(names)} if names else set()
    if missing := [name for name in names if name not in known]:
        raise InvalidInput(
            f"there is no group called {shown(missing[0])}; nothing was changed", hint="'headnode group add' makes one"
        )


def make_home(context: Context, person: Person) -> Path | None:
    """On the head node, when it has the homes; elsewhere the first login makes it."""
    home = homes.home_directory(context.site, context.paths, person.name)
    if home is not None:
        homes.make_home(home, person.number, person.number)
    return home


def change(
    context: Context, name: str, changes: Mapping[str, object], *, rehearsal: bool = False
) -> tuple[Person, Person]:
    """What somebody was, and is now. `changes` has the fields of a Wish."""
    with directory(context, writing=True) as found:
        before = found.person(name)
        after = replace(before, **changes)  # type: ignore[arg-type]
        personfields.judge(Wish.of(after))
        require_groups(found, [group for group in after.groups if group not in before.groups])
        if rehearsal:
            return before, after
        old, new = person_attributes(before), person_attributes(after)
        different = {key: new.get(key, []) for key in {*old, *new} if old.get(key) != new.get(key)}
        if different:
            found.change_person(name, different)
        for group in sorted({*before.groups} ^ {*after.groups}):
            joins = group in after.groups
            found.change_members(group, add=[name] if joins else (), remove=() if joins else [name])
    if before != after:
        said = ", ".join(sorted(key for key in changes if getattr(before, key) != getattr(after, key)))
        record(context, "user.set", f"changed {name}: {said}")
    return before, after


def set_locked(context: Context, name: str, locked: bool) -> bool:
    """False when it was so already. Whoever is locked also loses what they have open at the people's door."""
    with directory(context, writing=True) as found:
        changed = found.person(name).locked is not locked
        if changed:
            found.set_locked(name, locked)
    if locked:
        # Also when it was so already: it may have been interrupted just here.
        context.inventory.accounts.turn_out(name)
    if not changed:
        return False
    verb = "lock" if locked else "unlock"
    record(context, f"user.{verb}", f"{verb}ed {name}")
    return True


def set_password(context: Context, name: str, password: str) -> None:
    judge_password(password)
    with directory(context, writing=True) as found:
        found.person(name)
        found.set_password(found.tree.person(name), password)
    record(context, "user.passwd", f"set a password for {name}")


def judge_password(password: str) -> None:
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidInput(f"the password is too short; use at least {SHORTEST_PASSWORD} characters")
    if not password.isprintable():
        raise InvalidInput("the password has a character that cannot be typed; use letters, digits and signs")


def remove(context: Context, name: str) -> Person:
    """The entry goes; the number stays theirs for ever, and so do their files."""
    with directory(context, writing=True) as found:
        person = found.person(name)
        found.remove_person(name)
    context.inventory.accounts.turn_out(name)
    with context.inventory.change(context.actor, context.cause) as change:
        change.retire_numbers(Holder.USER, [name])
        change.record("user.remove", f"removed {name}; UID {person.number} is never given again")
    return person


def record(context: Context, kind: str, message: str) -> None:
    with context.inventory.change(context.actor, context.cause) as change:
        change.record(kind, message)


# Groups


def add_group(context: Context, name: str, number: int | None, description: str, *, rehearsal: bool = False) -> Group:
    personfields.group_name(name)
    personfields.plain(description, field="description")
    with directory(context, writing=True) as found:
        if next(found.groups([name]), None) is not None:
            raise Taken(f"there is a group '{name}' already")
        given = reserve(context, Holder.GROUP, {name: number}, rehearsal=rehearsal)[name]
        group = Group(name, given, description)
        if rehearsal:
            return group
        found.add_group(group)
    record(context, "group.add", f"added the group {name} with GID {group.number}")
    return group


def change_members(
    context: Context, name: str, add: Sequence[str], remove: Sequence[str], *, rehearsal: bool = False
) -> Group:
    """The group as it is then; in a rehearsal, as it is now."""
    with directory(context, writing=True) as found:
        before = found.group(name)
        known = {person.name for person in found.people(add)} if add else set()
        if missing := [member for member in add if member not in known]:
            raise InvalidInput(f"there is nobody called {shown(missing[0])}; nothing was changed")
        if rehearsal:
            return before
        found.change_members(name, add=add, remove=remove)
        after = found.group(name)
    if before.members != after.members:
        gained, lost = {*after.members} - {*before.members}, {*before.members} - {*after.members}
        said = [f"{sign}{member}" for sign, names in (("+", gained), ("-", lost)) for member in sorted(names)]
        record(context, "group.members", f"changed the members of {name}: {' '.join(said[:50])}")
    return after


def remove_group(context: Context, name: str, *, rehearsal: bool = False) -> Group:
    if name in (context.site.directory.admin_group, context.site.access.sudo_group):
        raise InvalidInput(f"site.yaml gives rights to the group '{name}' (admin_group, sudo_group); change that first")
    with directory(context, writing=True) as found:
        group = found.group(name)
        if rehearsal:
            return group
        found.remove_group(name)
    with context.inventory.change(context.actor, context.cause) as change:
        change.retire_numbers(Holder.GROUP, [name])
        change.record("group.remove", f"removed the group {name}; GID {group.number} is never given again")
    return group
