"""Importing people: a CSV sheet or a passwd file, judged row by row before anything is changed. All rows or none."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headnode import fields
from headnode.directory.entries import SHELL, Person
from headnode.errors import InvalidField, InvalidInput, shown
from headnode.model import Holder, Numbered
from headnode.site import Directory as Limits
from headnode.workflows import people, personfields
from headnode.workflows.context import Context
from headnode.workflows.personfields import Wish
from headnode.workflows.sheet import csv_lines, csv_rows
from headnode.workflows.verdicts import Judgement, Verdict

COLUMNS = ("name", "full_name", "email", "uid", "groups", "ssh_keys", "shell")
# Several keys in one cell: each begins with its kind.
KEY_START = re.compile(r"(?:^|[\s,;|])(?=(?:sk-)?(?:ssh|ecdsa)-)")
# What passwd says of an account that nobody logs in to.
NO_LOGIN = ("/usr/sbin/nologin", "/sbin/nologin", "/bin/false", "/usr/bin/false", "/bin/sync")
MOST_ROWS = 100_000


@dataclass(frozen=True)
class Row:
    where: str
    wish: Wish
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    name: str
    verdict: Verdict
    wish: Wish
    problems: tuple[str, ...] = ()
    # Who is in the directory already.
    there: Person | None = None


class Plan(Judgement[Item]):
    @property
    def new(self) -> list[Wish]:
        return [item.wish for item in self.of(Verdict.NEW)]


def read(text: str, name: str, *, renumber: bool = False) -> list[Row]:
    """Which of the two it is, the first line tells: passwd has six colons in every line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise InvalidInput(f"{name} is empty; it needs a header such as {','.join(COLUMNS[:5])}, or lines of passwd")
    if len(lines) > MOST_ROWS:
        raise InvalidInput(f"{name} has {len(lines)} lines; at most {MOST_ROWS} people at once")
    rows = read_passwd(text, name) if lines[0].count(":") == 6 else read_csv(text, name)
    if renumber:
        rows = [replace(row, wish=replace(row.wish, number=None)) for row in rows]
    if not rows:
        raise InvalidInput(f"{name} names nobody who could log in")
    return rows


def read_csv(text: str, name: str) -> list[Row]:
    lines = csv_lines(text, name)
    header = [cell.strip().lower() for cell in lines[0][1]] if lines else []
    for column in header:
        if column not in COLUMNS or header.count(column) > 1:
            hint = "passwords are never in a file like this: 'headnode user passwd'" if "pass" in column else ""
            raise InvalidInput(f"{name}: {shown(column)} is not a column, or is there twice; use {', '.join(COLUMNS)}",
                               hint=hint)  # fmt: skip
    if "name" not in header:
        raise InvalidInput(f"{name}: the column 'name' is missing; start with {','.join(COLUMNS[:5])}")
    return [row_of(values, where) for where, values in csv_rows(lines)]


def row_of(cells: Mapping[str, str], where: str) -> Row:
    given = {column: text.strip() for column, text in cells.items()}
    problems: list[str] = []
    number: int | None = None
    if said := given.get("uid"):
        try:
            number = fields.number(said, field="uid", low=0, high=2**31, where=where)
        except InvalidField as error:
            problems.append(error.message)
    groups = tuple(dict.fromkeys(word for word in re.split(r"[\s,;|]+", given.get("groups", "")) if word))
    keys = tuple(part for part in split_keys(given.get("ssh_keys", "")) if part)
    wish = Wish(given.get("name", ""), given.get("full_name", ""), given.get("email", ""), keys, groups,
                given.get("shell") or SHELL, number)  # fmt: skip
    return Row(where, wish, tuple(problems))


def split_keys(text: str) -> list[str]:
    """The keys of a cell; what comes before the first is kept, so that it can be refused."""
    at = [0, *(found.end() for found in KEY_START.finditer(text)), len(text)]
    return [text[start:end].strip(" \t\r\n,;|") for start, end in pairwise(at)]


def read_passwd(text: str, name: str) -> list[Row]:
    """People only: accounts of the system, below 1000 or without a shell, are nobody's."""
    rows: list[Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells, where = line.split(":"), f"{name}, line {number}"
        if len(cells) != 7 or not cells[2].isascii() or not cells[2].isdigit():
            problem = f"{where}: {shown(line)} is not a line of passwd; it has name:x:uid:gid:name:home:shell"
            rows.append(Row(where, Wish(cells[0]), (problem,)))
        elif int(cells[2]) >= 1000 and cells[0] != "nobody" and cells[6] not in NO_LOGIN:
            full_name = cells[4].partition(",")[0].strip()
            rows.append(Row(where, Wish(cells[0], full_name, shell=cells[6] or SHELL, number=int(cells[2]))))
    return rows


def plan(
    rows: Sequence[Row], there: Iterable[Person], groups: Iterable[str], ledger: Sequence[Numbered], limits: Limits
) -> Plan:
    """What becomes of every row. Pure."""
    people_there = {person.name: person for person in there}
    known_groups = set(groups)
    given = {entry.number: entry for entry in ledger}
    active = {entry.name: entry for entry in ledger if entry.removed is None}
    names: dict[str, str] = {}
    numbers: dict[int, str] = {}
    items: list[Item] = []
    for row in rows:
        wish, problems = row.wish, list(row.problems)
        try:
            personfields.judge(wish, where=row.where)
        except InvalidField as error:
            problems.append(error.message)
        if first := names.get(wish.name):
            problems.append(f"{row.where}: {shown(wish.name)} is in {first} already; give everybody one row")
        if wish.number is not None:
            if other := numbers.get(wish.number):
                problems.append(f"{row.where}: uid is '{wish.number}'; {other} has it already")
            problems += number_problems(row, given, active.get(wish.name), limits)
            numbers.setdefault(wish.number, row.where)
        problems += [
            f"{row.where}: there is no group called {shown(group)}; 'headnode group add' makes it"
            for group in wish.groups
            if group not in known_groups
        ]
        names.setdefault(wish.name, row.where)
        items.append(judged(row, problems, people_there.get(wish.name), active.get(wish.name)))
    return Plan(tuple(items))


def number_problems(row: Row, given: Mapping[int, Numbered], own: Numbered | None, limits: Limits) -> list[str]:
    number, name = row.wish.number or 0, row.wish.name
    holder = given.get(number)
    if holder is not None and (holder.kind is not Holder.USER or holder.name != name):
        return [f"{row.where}: uid is '{number}'; it is the {holder.kind} {holder.name}'s and never anybody else's"]
    if own is not None and own.kind is Holder.USER and own.number != number:
        return [f"{row.where}: uid is '{number}'; {name} has {own.number} already, and keeps it"]
    if not limits.first_id <= number <= limits.last_id:
        allowed = f"use one from {limits.first_id} to {limits.last_id}, or --renumber"
        keeping = "a lower directory.first_id in site.yaml keeps numbers from before"
        return [f"{row.where}: uid is '{number}'; {allowed} ({keeping})"]
    return []


def judged(row: Row, problems: list[str], there: Person | None, own: Numbered | None) -> Item:
    wish = row.wish
    if own is not None and own.kind is Holder.GROUP:
        problems.append(f"{row.where}: {shown(wish.name)} is the name of a group; use another")
    if there is not None and not problems:
        different = [
            f"{row.where}: {key} of {wish.name} is {shown(getattr(there, key))} in the directory, not "
            f"{shown(getattr(wish, key))}; 'headnode user set' changes people"
            for key in ("full_name", "email", "ssh_keys", "shell")
            if getattr(wish, key) and getattr(wish, key) != getattr(there, key)
        ]
        problems += different
    if problems:
        return Item(wish.name, Verdict.PROBLEM, wish, tuple(problems))
    return Item(wish.name, Verdict.UNCHANGED if there else Verdict.NEW, wish, there=there)


def prepare(context: Context, rows: Sequence[Row]) -> Plan:
    with people.directory(context, writing=True) as found:
        names = [row.wish.name for row in rows]
        there = list(found.people(names) if len(names) < 500 else found.people())
        groups = [group.name for group in found.groups()]
    made = plan(rows, there, groups, context.inventory.numbers(), context.site.directory)
    if not made.problems:
        # That there are numbers enough for all is known only when they are asked for.
        people.reserve(context, Holder.USER, {wish.name: wish.number for wish in made.new}, rehearsal=True)
    return made


def carry_out(context: Context, made: Plan, told: Callable[[int], None]) -> list[Person]:
    """Numbers for all in one transaction, then entries, groups and homes; run again, it goes on where it stopped."""
    numbers = people.reserve(context, Holder.USER, {wish.name: wish.number for wish in made.new})
    added = [wish.person(numbers[wish.name]) for wish in made.new]
    wished = [item.wish for item in made.items if item.wish.groups]
    members: dict[str, list[str]] = {}
    for wish in wished:
        for group in wish.groups:
            members.setdefault(group, []).append(wish.name)
    with people.directory(context, writing=True) as found:
        found.add_people(added, context.paths, told)
        for group, names in sorted(members.items()):
            found.change_members(group, add=names)
    # Also of those whom an import that was interrupted has left without.
    for person in (*added, *(item.there for item in made.items if item.there)):
        people.make_home(context, person)
    if added:
        people.record(context, "user.import", f"imported {len(added)} people")
    return added
