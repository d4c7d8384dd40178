"""Talking to the directory. Everything that is looked for is escaped here, so no name can become part of a filter."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headnode.directory.connect import ASYNC, SYNC, connection_elsewhere, connection_to, escaped, explained
from headnode.directory.entries import (
    GROUP_CLASSES,
    PERSON_CLASSES,
    Attributes,
    Entry,
    Group,
    Person,
    Vocabulary,
    Wanted,
    group_attributes,
    group_of,
    member_values,
    person_attributes,
    person_of,
    text,
)
from headnode.errors import HeadnodeError, InvalidInput, NotFound, Taken, shown
from headnode.ldaptree import LOCKED, LOCKED_FOR_EVER, Tree
from headnode.paths import Paths
from headnode.site import Directory as Settings

OPERATORS = {"add": "MODIFY_ADD", "delete": "MODIFY_DELETE", "replace": "MODIFY_REPLACE"}
# Adding a value that is there, or taking away one that is not, is no error (supported by slapd).
PERMISSIVE = ("1.2.840.113556.1.4.1413", False, None)
NO_SUCH_OBJECT, ALREADY_THERE, CONSTRAINT = 32, 68, 19
PAGE = 1000
# Requests on their way at once: enough that slapd never waits for us, few enough to hold in memory.
WINDOW = 200
# The memberOf overlay touches every member's own entry within one request.
MEMBERS_AT_ONCE = 1000
SLOWEST_ANSWER = 60


class Directory:
    """An open connection to our own server, or to somebody else's: that one is only read."""

    def __init__(self, connection: Any, tree: Tree, words: Vocabulary, *, ours: bool) -> None:
        self._connection = connection
        self.tree = tree
        self.words = words
        self.ours = ours

    # Reading

    def people(self, names: Iterable[str] | None = None) -> Iterator[Person]:
        """Everybody, or those of exactly these names: directories themselves ignore case and blanks."""
        only = None if names is None else set(names)
        for condition in self._named(self.words.name, only):
            for entry in self.search(condition):
                if only is None or entry.name in only:
                    yield entry

    def person(self, name: str) -> Person:
        found = next(self.people([name]), None)
        if found is None:
            raise NotFound(f"there is nobody called {shown(name)}", hint="'headnode user list' lists all")
        return found

    def holder(self, number: int) -> Person | None:
        return next(self.search(f"({self.words.uid}={number:d})"), None)

    def search(self, condition: str) -> Iterator[Person]:
        """People by a filter; whoever makes it escapes what they put in."""
        base = self.tree.people if self.ours else self.tree.base
        whole = f"(&(objectClass={self.words.person_class}){condition})"
        return (person_of(entry, self.words) for entry in self._search(base, whole, self.words.of_people))

    def groups(self, names: Iterable[str] | None = None) -> Iterator[Group]:
        base = self.tree.groups if self.ours else self.tree.base
        attributes = ["cn", self.words.gid, "description", self.words.members]
        only = None if names is None else set(names)
        for condition in self._named("cn", only):
            whole = f"(&(objectClass={self.words.group_class}){condition})"
            for entry in self._search(base, whole, attributes):
                if only is None or text(entry, "cn") in only:
                    yield group_of(entry, self.words)

    def group(self, name: str) -> Group:
        found = next(self.groups([name]), None)
        if found is None:
            raise NotFound(f"there is no group called {shown(name)}", hint="'headnode group list' lists all")
        return found

    def has(self, dn: str) -> bool:
        with explained():
            self._connection.search(dn, "(objectClass=*)", search_scope="BASE", attributes=["1.1"])
        return bool(self._connection.result["result"] == 0)

    def password_fits(self, name: str, password: str) -> bool:
        """Whether somebody can log in with it, judged by the directory itself. This connection is theirs afterwards."""
        base = self.tree.people if self.ours else self.tree.base
        whole = f"(&(objectClass={self.words.person_class})({self.words.name}={escaped(name)}))"
        with explained():
            self._connection.search(base, whole, attributes=["1.1"])
            found = [item["dn"] for item in self._connection.response if item["type"] == "searchResEntry"]
            # An empty password would be taken for no login at all, and that always succeeds.
            if len(found) != 1 or not password:
                return False
            return bool(self._connection.rebind(user=found[0], password=password, authentication="SIMPLE"))

    def _named(self, attribute: str, names: Iterable[str] | None) -> Iterator[str]:
        if names is None:
            yield f"({attribute}=*)"
            return
        listed = list(names)
        for start in range(0, len(listed), WINDOW):
            batch = listed[start : start + WINDOW]
            yield "(|" + "".join(f"({attribute}={escaped(name)})" for name in batch) + ")"

    def _search(self, base: str, condition: str, attributes: list[str]) -> Iterator[Entry]:
        with explained():
            found = self._connection.extend.standard.paged_search(
                base, condition, attributes=attributes, paged_size=PAGE, generator=True
            )
            for item in found:
                if item["type"] == "searchResEntry":
                    yield item["raw_attributes"]

    # Writing

    def lay_foundation(self, entries: Sequence[Wanted]) -> None:
        """Make what is missing, and put right what Headnode decides; twice changes nothing."""
        for wanted in entries:
            # An attribute without values cannot be added; replacing it with none is how it goes.
            kept = {key: values for key, values in wanted.kept.items() if values}
            if not self._add(wanted.dn, wanted.classes, {**wanted.attributes, **kept}) and wanted.kept:
                self._modify(wanted.dn, {key: ("replace", values) for key, values in wanted.kept.items()})

    def add_service(self, dn: str, password: str) -> None:
        """An account for programs, that can do no more than read."""
        name = dn.partition(",")[0].partition("=")[2]
        # It has a password from its first moment; the exchange below lets slapd hash it.
        if self._add(dn, ("applicationProcess", "simpleSecurityObject"), {"cn": [name], "userPassword": ["{none}"]}):
            self.set_password(dn, password)

    def add_person(self, person: Person) -> None:
        if not self._add(self.tree.person(person.name), PERSON_CLASSES, person_attributes(person)):
            raise Taken(f"'{person.name}' is in the directory already")

    def add_group(self, group: Group) -> None:
        if not self._add(self.tree.group(group.name), GROUP_CLASSES, group_attributes(group, self.tree)):
            raise Taken(f"the group '{group.name}' is in the directory already")

    def change_person(self, name: str, attributes: Mapping[str, list[str]]) -> None:
        self._modify(self.tree.person(name), {key: ("replace", values) for key, values in attributes.items()})

    def change_members(self, group: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        for operator, names in (("delete", list(remove)), ("add", list(add))):
            for start in range(0, len(names), MEMBERS_AT_ONCE):
                values = member_values(names[start : start + MEMBERS_AT_ONCE], self.tree)
                self._modify(self.tree.group(group), {key: (operator, found) for key, found in values.items()})

    def set_locked(self, name: str, locked: bool) -> None:
        self._modify(self.tree.person(name), {LOCKED: ("replace", [LOCKED_FOR_EVER] if locked else [])})

    def set_password(self, dn: str, password: str) -> None:
        """Hashed by slapd itself (argon2); an empty one would let nobody in, and is never set."""
        if not password:
            raise InvalidInput("the password is empty; use at least ten characters")
        self._refuse_writing()
        with explained():
            self._connection.extend.standard.modify_password(user=dn, new_password=password)
        outcome(self._connection.result, dn)

    def remove_person(self, name: str) -> None:
        dn = self.tree.person(name)
        condition = f"(&(objectClass=posixGroup)(memberUid={escaped(name)}))"
        for entry in list(self._search(self.tree.groups, condition, ["cn"])):
            self.change_members(entry["cn"][0].decode(), remove=[name])
        self._delete(dn)

    def remove_group(self, name: str) -> None:
        self._delete(self.tree.group(name))

    def add_people(self, people: Sequence[Person], paths: Paths, told: Callable[[int], None]) -> None:
        """Many at once: while slapd writes one, the next are on their way. Who is there already is left alone."""
        self._refuse_writing()
        with explained(), connection_to(paths.ldap_socket, ASYNC) as many:
            waiting: list[tuple[int, str]] = []
            for count, person in enumerate(people, 1):
                dn = self.tree.person(person.name)
                waiting.append((many.add(dn, list(PERSON_CLASSES), person_attributes(person)), dn))
                if len(waiting) >= 2 * WINDOW or count == len(people):
                    done, waiting = (waiting, []) if count == len(people) else (waiting[:WINDOW], waiting[WINDOW:])
                    for message, name in done:
                        outcome(many.get_response(message, timeout=SLOWEST_ANSWER)[1], name, there_is_fine=True)
                    told(count - len(waiting))

    def _refuse_writing(self) -> None:
        if not self.ours:
            raise InvalidInput("the directory is somebody else's (directory.mode is external) and is never written to")

    def _add(self, dn: str, classes: Sequence[str], attributes: Attributes) -> bool:
        """False when there is such an entry already."""
        self._refuse_writing()
        with explained():
            self._connection.add(dn, list(classes), attributes)
        if self._connection.result["result"] == ALREADY_THERE:
            return False
        outcome(self._connection.result, dn)
        return True

    def _modify(self, dn: str, changes: Mapping[str, tuple[str, list[str]]]) -> None:
        self._refuse_writing()
        steps = {key: [(OPERATORS[operator], values)] for key, (operator, values) in changes.items()}
        with explained():
            self._connection.modify(dn, steps, controls=[PERMISSIVE])
        outcome(self._connection.result, dn)

    def _delete(self, dn: str) -> None:
        self._refuse_writing()
        with explained():
            self._connection.delete(dn)
        outcome(self._connection.result, dn)


def outcome(result: Mapping[str, Any], dn: str, *, there_is_fine: bool = False) -> None:
    """What the server answered, in our words."""
    code = result["result"]
    if code == 0 or (there_is_fine and code == ALREADY_THERE):
        return
    if code == NO_SUCH_OBJECT:
        raise NotFound(f"{dn} is not in the directory")
    said = f"{result['description']}" + (f": {result['message']}" if result.get("message") else "")
    if code == CONSTRAINT:
        raise InvalidInput(f"the directory refuses {dn} ({said})", hint="'headnode user audit' names collisions")
    raise HeadnodeError(f"the directory did not change {dn} ({said})")


@contextmanager
def our_directory(paths: Paths, tree: Tree) -> Iterator[Directory]:
    with connection_to(paths.ldap_socket, SYNC) as connection:
        yield Directory(connection, tree, Vocabulary(), ours=True)


@contextmanager
def other_directory(
    settings: Settings, tree: Tree, words: Vocabulary, ca_file: str | None, password: str | None
) -> Iterator[Directory]:
    with connection_elsewhere(settings, ca_file, password) as connection:
        yield Directory(connection, tree, words, ours=False)
