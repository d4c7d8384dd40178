"""A directory for tests of the people's door: who is in it, in which groups, and whether it answers at all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from headnode.directory.entries import Person
from headnode.errors import HeadnodeError
from headnode.workflows import people
from headnode.workflows.context import Context
from tests.web.conftest import PASSWORD


@dataclass
class FakeDirectory:
    persons: dict[str, Person] = field(default_factory=dict)
    asked: int = 0
    silent: bool = False

    def add(self, name: str, *groups: str) -> None:
        self.persons[name] = Person(name, 20_000 + len(self.persons), groups=groups)

    def people(self, names: Iterable[str]) -> Iterator[Person]:
        self.asked += 1
        return (self.persons[name] for name in names if name in self.persons)

    def person(self, name: str) -> Person:
        return self.persons[name]

    def password_fits(self, name: str, password: str) -> bool:
        return name in self.persons and password == PASSWORD

    def set_locked(self, name: str, locked: bool) -> None:
        self.persons[name] = replace(self.persons[name], locked=locked)

    def remove_person(self, name: str) -> None:
        del self.persons[name]

    @contextmanager
    def opened(self, context: Context, *, writing: bool = False) -> Iterator["FakeDirectory"]:
        if self.silent:
            raise HeadnodeError("the directory does not answer")
        yield self


def in_place(monkeypatch: pytest.MonkeyPatch) -> FakeDirectory:
    made = FakeDirectory()
    monkeypatch.setattr(people, "directory", made.opened)
    return made
