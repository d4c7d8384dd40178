"""The application in this process, and people of every role with cookies of their own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from headnode.accounts import Role
from headnode.web.app import application
from headnode.workflows import doors
from headnode.workflows.context import Context

PASSWORD = "correct horse battery"


@dataclass
class Person:
    client: FlaskClient
    csrf: str

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.client.get(path, **more)

    def post(self, path: str, **data: str) -> TestResponse:
        return self.client.post(path, data={"csrf": self.csrf, **data})

    def send(self, path: str, body: Any, method: str = "POST", **headers: str) -> TestResponse:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.client.open(path, method=method, json=body, headers={"X-CSRF-Token": self.csrf, **named})


@pytest.fixture
def app(context: Context, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    # The real parameters take a quarter of a second for each login; what is tested here is not how slow they are.
    from argon2 import PasswordHasher

    monkeypatch.setattr(doors, "hasher", lambda: PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    doors.nobody.cache_clear()
    made = application(context)
    made.testing = True
    yield made
    doors.nobody.cache_clear()


@pytest.fixture
def person(app: Flask, context: Context) -> Callable[[str], Person]:
    def enter(role: str) -> Person:
        name = f"{role}-person"
        if context.inventory.accounts.find(name) is None:
            doors.accept(context, doors.invite(context, name, Role(role)), name, PASSWORD)
        client = app.test_client()
        assert client.post("/login", data={"name": name, "password": PASSWORD}).status_code == 303
        cookie = client.get_cookie("headnode")
        assert cookie is not None
        from headnode.door.visitors import csrf_of

        return Person(client, csrf_of(cookie.value))

    return enter


@pytest.fixture
def admin(person: Callable[[str], Person]) -> Person:
    return person("admin")


@pytest.fixture
def viewer(person: Callable[[str], Person]) -> Person:
    return person("viewer")


@pytest.fixture
def operator(person: Callable[[str], Person]) -> Person:
    return person("operator")
