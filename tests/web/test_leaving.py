"""Whoever is shut out is out: with their sessions, their tokens, and whatever they have open."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import pytest
from flask import Flask
from flask.testing import FlaskClient

from headnode.accounts import Role
from headnode.door import live, state, tunnel, visitors
from headnode.door.state import Door
from headnode.errors import HeadnodeError
from headnode.inventory import accounts
from headnode.workflows import doors, people, standing
from headnode.workflows.context import Context
from tests.web.conftest import PASSWORD, Person
from tests.web.directory import FakeDirectory, in_place

GROUPS = "\nweb: {groups: {staff: operator, readers: viewer}}\n"
SOON = 5.0


@pytest.fixture
def directory(context: Context, monkeypatch: pytest.MonkeyPatch) -> FakeDirectory:
    file = context.paths.site_file
    file.write_text(file.read_text() + GROUPS)
    context.refresh()
    made = in_place(monkeypatch)
    made.add("dora", "staff")
    return made


@dataclass
class Both:
    """Somebody with a browser and a script."""

    browser: Person
    script: FlaskClient
    token: str

    def answers(self) -> tuple[int, int]:
        given = {"Authorization": f"Bearer {self.token}"}
        return self.browser.get("/nodes").status_code, self.script.get("/api/v1/me", headers=given).status_code


def enter(app: Flask, name: str = "dora") -> Person:
    client = app.test_client()
    assert client.post("/login", data={"name": name, "password": PASSWORD}).status_code == 303
    cookie = client.get_cookie("headnode")
    assert cookie is not None
    return Person(client, visitors.csrf_of(cookie.value))


@pytest.fixture
def dora(app: Flask, directory: FakeDirectory) -> Both:
    browser = enter(app)
    made = browser.send("/api/v1/tokens", {"label": "script", "scope": "operator", "days": 1})
    both = Both(browser, app.test_client(), made.get_json()["token"])
    assert both.answers() == (200, 200)
    return both


@pytest.fixture
def door(app: Flask) -> Door:
    return cast(Door, app.extensions[state.KEY])


def a_minute_later(door: Door, seconds: float = standing.FRESH) -> None:
    for name, (at, role) in door.standing.heard.items():
        door.standing.heard[name] = (at - seconds, role)
    door.standing.silent_until -= seconds


# The directory


def test_who_is_locked_here_is_out_at_once_and_for_good(context: Context, dora: Both, app: Flask) -> None:
    people.set_locked(context, "dora", True)
    assert dora.answers() == (401, 401)
    people.set_locked(context, "dora", False)
    assert dora.answers() == (401, 401), "what was taken away does not come back by itself"
    assert enter(app).get("/nodes").status_code == 200, "a new login counts at once"


def test_who_is_removed_here_is_out_at_once(context: Context, dora: Both, directory: FakeDirectory, door: Door) -> None:
    people.remove(context, "dora")
    assert dora.answers() == (401, 401)
    # Another one of that name does not inherit the token.
    directory.add("dora", "staff")
    a_minute_later(door)
    assert dora.answers() == (401, 401)


def test_locking_again_finishes_what_was_interrupted(context: Context, dora: Both, directory: FakeDirectory) -> None:
    directory.set_locked("dora", True)
    assert dora.answers() == (200, 200), "nobody has told the door"
    assert people.set_locked(context, "dora", True) is False
    assert dora.answers() == (401, 401)


@pytest.mark.parametrize("change", ["locked", "gone", "in no group that is let in"])
def test_who_is_shut_out_elsewhere_is_out_within_a_minute(
    dora: Both, directory: FakeDirectory, door: Door, change: str
) -> None:
    if change == "locked":
        directory.set_locked("dora", True)
    elif change == "gone":
        directory.remove_person("dora")
    else:
        directory.add("dora", "students")
    a_minute_later(door)
    assert dora.answers() == (401, 401)


def test_who_has_fewer_groups_may_less_within_a_minute(dora: Both, directory: FakeDirectory, door: Door) -> None:
    directory.add("dora", "readers")
    a_minute_later(door)
    assert dora.answers() == (200, 200)
    assert dora.browser.send("/api/v1/publish", {}).status_code == 403


def test_the_directory_is_not_asked_at_every_click(dora: Both, directory: FakeDirectory, door: Door) -> None:
    before = directory.asked
    assert [dora.answers() for _ in range(5)] == [(200, 200)] * 5
    assert directory.asked == before
    a_minute_later(door)
    assert [dora.answers() for _ in range(5)] == [(200, 200)] * 5
    assert directory.asked == before + 1


def test_a_directory_that_is_away_is_waited_for_but_not_for_ever(
    dora: Both, directory: FakeDirectory, door: Door, admin: Person
) -> None:
    directory.silent = True
    a_minute_later(door)
    assert dora.answers() == (200, 200)
    a_minute_later(door, standing.PATIENCE)
    assert dora.answers() == (401, 401)
    assert admin.get("/nodes").status_code == 200, "who has a password here needs no directory"
    directory.silent = False
    a_minute_later(door)
    assert dora.answers() == (200, 200)


def test_an_account_of_the_door_is_not_the_directorys(context: Context, directory: FakeDirectory, app: Flask) -> None:
    directory.add("admin-person", "staff")
    doors.accept(context, doors.invite(context, "admin-person", Role.ADMIN), "admin-person", PASSWORD)
    own = enter(app, "admin-person")
    people.set_locked(context, "admin-person", True)
    assert own.get("/audit").status_code == 200


# What is open


def test_a_stream_of_news_ends_with_the_session(
    app: Flask, context: Context, person: Callable[[str], Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "KEEP_ALIVE", 0.1)
    somebody = person("operator")
    lines = somebody.get("/live", buffered=False).response
    assert "welcome" in str(next(iter(lines)))
    assert "still here" in str(next(iter(lines)))
    assert somebody.post("/logout").status_code == 303
    assert ended(lines)


def test_a_stream_of_news_ends_with_its_token(
    app: Flask, context: Context, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "KEEP_ALIVE", 0.1)
    token = admin.send("/api/v1/tokens", {"label": "script", "days": 1}).get_json()["token"]
    lines = app.test_client().get("/api/v1/live", headers={"Authorization": f"Bearer {token}"}).response
    assert "welcome" in str(next(iter(lines)))
    (listed,) = context.inventory.accounts.tokens()
    context.inventory.accounts.revoke_token(listed.id)
    assert ended(lines)


def ended(lines: object) -> bool:
    """Within a few more lines; what never ends would fill the list."""
    rest = [line for _, line in zip(range(20), iter(lines), strict=False)]  # type: ignore[call-overload]
    return len(rest) == 0


@dataclass
class Console:
    """Both far ends of a tunnel that runs in a thread, as gunicorn would run it."""

    browser: socket.socket
    machine: socket.socket
    over: threading.Event

    def says(self, text: bytes) -> bool:
        self.machine.sendall(text)
        return self.browser.recv(100) == text


@pytest.fixture
def consoles(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], bool]], Console]]:
    monkeypatch.setattr(tunnel, "LOOK_EVERY", 0.1)
    opened: list[socket.socket] = []

    def open_one(still: Callable[[], bool]) -> Console:
        browser, outer = socket.socketpair()
        inner, machine = socket.socketpair()
        opened.extend((browser, outer, inner, machine))
        over = threading.Event()

        def work() -> None:
            tunnel.relay(outer, inner, still)
            over.set()

        threading.Thread(target=work, daemon=True).start()
        return Console(browser, machine, over)

    yield open_one
    for one in opened:
        one.close()


Ending = Callable[[Context, Person], object]
ENDINGS: dict[str, Ending] = {
    "logout": lambda context, somebody: somebody.post("/logout"),
    "shut": lambda context, somebody: doors.change_account(context, "operator-person", enabled=False),
    "less": lambda context, somebody: doors.change_account(context, "operator-person", role=Role.VIEWER),
    "password": lambda context, somebody: doors.accept(
        context, doors.invite(context, "operator-person", Role.OPERATOR), "", "another long password"
    ),
}


@pytest.mark.parametrize("how", sorted(ENDINGS))
def test_a_console_ends_with_the_session(
    context: Context, door: Door, admin: Person, person: Callable[[str], Person],
    consoles: Callable[[Callable[[], bool]], Console], how: str,
) -> None:  # fmt: skip
    somebody = person("operator")
    cookie = somebody.client.get_cookie("headnode")
    assert cookie is not None
    visitor = visitors.by_session(door, cookie.value)
    assert visitor is not None
    console = consoles(visitors.watched(door, visitor))
    assert console.says(b"login: ")
    assert not console.over.wait(0.5), "it stays as long as the login does"
    ENDINGS[how](context, somebody)
    assert console.over.wait(SOON)


def test_a_console_ends_when_the_login_has_lasted_long_enough(
    door: Door, admin: Person, consoles: Callable[[Callable[[], bool]], Console], monkeypatch: pytest.MonkeyPatch
) -> None:
    cookie = admin.client.get_cookie("headnode")
    assert cookie is not None
    visitor = visitors.by_session(door, cookie.value)
    assert visitor is not None
    console = consoles(visitors.watched(door, visitor))
    assert console.says(b"login: ")
    later = accounts.now() + timedelta(hours=door.context.site.web.session_hours)
    monkeypatch.setattr(accounts, "now", lambda: later)
    assert console.over.wait(SOON)


def test_who_types_all_the_time_is_out_too(consoles: Callable[[Callable[[], bool]], Console]) -> None:
    until = time.monotonic() + 0.5
    console = consoles(lambda: time.monotonic() < until)
    typed = 0
    while not console.over.is_set() and typed < 200:
        console.browser.sendall(b"x")
        typed += 1
        time.sleep(0.01)
    assert 10 < typed < 200


def test_when_nobody_can_tell_a_console_is_closed(door: Door, admin: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = admin.client.get_cookie("headnode")
    assert cookie is not None
    visitor = visitors.by_session(door, cookie.value)
    assert visitor is not None
    still = visitors.watched(door, visitor)
    assert still()

    def away(*given: object) -> None:
        raise HeadnodeError("the database is away")

    monkeypatch.setattr(door.context.inventory.accounts, "session", away)
    assert not still()
