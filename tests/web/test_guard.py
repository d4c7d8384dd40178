"""Nobody passes unseen: every route, without a login, with too small a role, with a form that is not ours."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyotp
import pytest
from argon2.exceptions import VerifyMismatchError
from flask import Flask
from werkzeug.routing import Rule

from headnode.accounts import Role
from headnode.door.guard import OPEN, needed
from headnode.workflows import doors
from headnode.workflows.context import Context
from tests.web.conftest import PASSWORD, Person

# Everybody may read our style sheet, log in, and take up an invitation that only they have.
ALLOWED = {"static", "login.form", "login.enter", "login.invitation", "login.join"}
NAMES = {"name": "gpu01", "token": "x", "number": "1", "reference": "gpu", "id": "1", "action": "power-on"}


def routes(app: Flask) -> Iterator[tuple[Rule, str, str]]:
    for rule in app.url_map.iter_rules():
        for method in sorted(rule.methods or ()):
            if method not in ("HEAD", "OPTIONS"):
                path = rule.rule.replace("<int:", "<").replace("<path:", "<")
                for name, value in NAMES.items():
                    path = path.replace(f"<{name}>", value)
                yield rule, method, path.replace("<filename>", "headnode.css")


def test_only_these_routes_are_open(app: Flask) -> None:
    assert {rule.endpoint for rule, _, _ in routes(app) if needed(app, rule.endpoint) == OPEN} == ALLOWED


def test_every_other_route_answers_401_without_a_session(app: Flask) -> None:
    client = app.test_client()
    swept = 0
    for rule, method, path in routes(app):
        if rule.endpoint in ALLOWED:
            continue
        answer = client.open(path, method=method, json={} if path.startswith("/api/") else None)
        assert answer.status_code == 401, (method, path, answer.status_code)
        swept += 1
    assert swept > 80


def test_what_is_not_there_is_not_told_to_strangers(app: Flask) -> None:
    assert app.test_client().get("/no/such/page").status_code == 401
    assert app.test_client().get("/api/v1/no-such-thing").status_code == 401


def test_a_viewer_is_refused_wherever_something_is_written(app: Flask, viewer: Person) -> None:
    swept = 0
    for rule, method, path in routes(app):
        wanted = needed(app, rule.endpoint)
        if wanted in (OPEN, "viewer"):
            continue
        answer = viewer.send(path, {}, method) if path.startswith("/api/") else viewer.client.open(
            path, method=method, data={"csrf": viewer.csrf}
        )  # fmt: skip
        assert answer.status_code == 403, (method, path, answer.status_code)
        swept += 1
    assert swept > 20


# What a viewer may send: their own password, codes, tokens and logout, and questions that change nothing.
HARMLESS = {
    "login.leave", "people.password", "people.code", "people.token", "people.revoke", "place.check",
    "api.make_token", "api.revoke_token", "api.check_site", "api.verify_image",
}  # fmt: skip


def test_every_route_that_writes_needs_more_than_a_viewer(app: Flask) -> None:
    for rule, method, path in routes(app):
        if method != "GET" and rule.endpoint not in ALLOWED | HARMLESS:
            assert needed(app, rule.endpoint) in ("operator", "admin"), path


def test_without_the_forms_mark_nothing_is_written(app: Flask, admin: Person, context: Context) -> None:
    before = context.inventory.pulse()
    for rule, method, path in routes(app):
        if method == "GET" or rule.endpoint in ALLOWED:
            continue
        for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "0" * 64}):
            body: dict[str, str] | None = {} if path.startswith("/api/") else None
            form = None if path.startswith("/api/") else {"csrf": "null"}
            answer = admin.client.open(path, method=method, headers=headers, json=body, data=form)
            assert answer.status_code == 403, (method, path, answer.status_code)
    assert context.inventory.pulse() == before


def test_another_sites_page_is_refused_even_with_the_mark(admin: Person) -> None:
    headers = {"Origin": "https://evil.example", "X-CSRF-Token": admin.csrf}
    assert admin.client.post("/api/v1/publish", json={}, headers=headers).status_code == 403
    assert admin.client.post("/login", data={"name": "a"}, headers=headers).status_code == 403


WRONG = ["", "-1", "null", "undefined", "0", "' OR 1=1 --", "\x00", "x" * 100_000, "admin-person\x00", "🦄" * 40]


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("password", ["", "null", "-1", "x" * 100_000])
def test_wrong_credentials_are_refused(app: Flask, admin: Person, name: str, password: str) -> None:
    answer = app.test_client().post("/login", data={"name": name, "password": password})
    assert answer.status_code in (401, 429)
    answer = app.test_client().post("/login", data={"name": "admin-person", "password": password})
    assert answer.status_code in (401, 429)


@pytest.mark.parametrize("token", ["", "-1", "null", "x" * 199, "x" * 100_000, "é"])
def test_wrong_tokens_and_sessions_are_refused(app: Flask, token: str) -> None:
    client = app.test_client()
    assert client.get("/api/v1/nodes", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    assert client.get("/api/v1/nodes", headers={"Authorization": f"Basic {token}"}).status_code == 401
    cookie = {"Cookie": f"headnode={token}".encode().decode("latin-1")}
    assert client.get("/api/v1/nodes", headers=cookie).status_code == 401


def test_guessing_is_slowed_down_for_the_name_and_for_the_address(app: Flask, admin: Person) -> None:
    client = app.test_client()
    codes = [
        client.post("/login", data={"name": "admin-person", "password": f"guess {n}"}).status_code for n in range(8)
    ]
    assert codes[:5] == [401] * 5
    assert 429 in codes[5:]
    # The right password is not heard either while the name is guessed at: that would tell the guesser.
    assert client.post("/login", data={"name": "admin-person", "password": PASSWORD}).status_code == 429


@dataclass
class SlowHasher:
    """Counts who compares passwords at the same time, and how often anybody does."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    now: int = 0
    most: int = 0
    whole: int = 0

    def hash(self, password: str) -> str:
        return "a hash"

    def verify(self, stored: str, password: str) -> bool:
        with self.lock:
            self.now, self.whole = self.now + 1, self.whole + 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        with self.lock:
            self.now -= 1
        raise VerifyMismatchError


def guess_at_once(app: Flask, guesses: list[tuple[str, str]]) -> list[int]:
    """Each from a thread of its own, all let go in the same moment; a guess is a name and an address."""
    ready = threading.Barrier(len(guesses))

    def guess(who: tuple[str, str]) -> int:
        client = app.test_client()
        ready.wait(10)
        given = {"name": who[0], "password": "a guess of mine"}
        return client.post("/login", data=given, environ_base={"REMOTE_ADDR": who[1]}).status_code

    with ThreadPoolExecutor(len(guesses)) as pool:
        return list(pool.map(guess, guesses))


@pytest.mark.parametrize("varied", ["neither", "name", "address"])
def test_guesses_that_come_at_once_are_slowed_down_too(
    app: Flask, admin: Person, monkeypatch: pytest.MonkeyPatch, varied: str
) -> None:
    slow = SlowHasher()
    monkeypatch.setattr(doors, "hasher", lambda: slow)
    guesses = [
        (f"name{n}" if varied == "name" else "admin-person", f"192.0.2.{n if varied == 'address' else 1}")
        for n in range(30)
    ]
    codes = guess_at_once(app, guesses)
    assert slow.whole == 5
    assert (codes.count(401), codes.count(429)) == (5, 25)


def test_few_passwords_are_compared_at_the_same_time(
    app: Flask, admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowHasher()
    monkeypatch.setattr(doors, "hasher", lambda: slow)
    codes = guess_at_once(app, [(f"name{n}", f"192.0.2.{n}") for n in range(20)])
    assert codes == [401] * 20
    assert slow.most <= doors.HASHES_AT_ONCE
    # Nor may many wait: their threads are for those who are in.
    monkeypatch.setattr(doors, "line", threading.BoundedSemaphore(4))
    codes = guess_at_once(app, [(f"other{n}", f"198.51.100.{n}") for n in range(20)])
    assert 429 in codes
    assert set(codes) <= {401, 429}


def test_somebody_who_is_right_is_not_held_for_a_guesser(app: Flask, admin: Person) -> None:
    given = {"name": "admin-person", "password": PASSWORD}
    assert [app.test_client().post("/login", data=given).status_code for _ in range(12)] == [303] * 12


def test_a_first_admin_is_made_once(app: Flask, context: Context) -> None:
    link = doors.first_link(context)
    assert link is not None
    note = context.paths.runtime / "first-admin"
    assert note.read_text().strip().endswith(link)
    assert note.stat().st_mode & 0o077 == 0
    client = app.test_client()
    assert client.get(link).status_code == 200
    given = {"name": "ada", "password": PASSWORD, "again": PASSWORD}
    assert client.post(link, data={**given, "again": "other words here"}).status_code == 422
    assert client.post(link, data={**given, "password": "short", "again": "short"}).status_code == 422
    assert client.post(link, data=given).status_code == 303
    assert client.get("/").status_code == 200
    assert app.test_client().post(link, data={**given, "name": "eve"}).status_code == 404
    assert doors.first_link(context) is None
    assert not note.exists()


def test_a_second_factor_is_asked_for_and_each_code_works_once(app: Flask, context: Context, admin: Person) -> None:
    secret = doors.new_totp_secret()
    account = context.inventory.accounts.find("admin-person")
    assert account is not None
    now = datetime.now(UTC)
    doors.set_totp(context, account, secret, pyotp.TOTP(secret).at(now - timedelta(seconds=30)))
    given = {"name": "admin-person", "password": PASSWORD}
    assert app.test_client().post("/login", data=given).status_code == 401
    code = pyotp.TOTP(secret).at(now)
    assert app.test_client().post("/login", data={**given, "code": code}).status_code == 303
    assert app.test_client().post("/login", data={**given, "code": code}).status_code == 401


def test_a_session_ends(app: Flask, context: Context, person: Callable[[str], Person]) -> None:
    somebody = person("operator")
    assert somebody.get("/").status_code == 200
    doors.change_account(context, "operator-person", enabled=False)
    assert somebody.get("/").status_code == 401
    doors.change_account(context, "operator-person", enabled=True)
    assert somebody.get("/").status_code == 401  # what was taken away does not come back by itself
    again = person("operator")
    assert again.post("/logout").status_code == 303
    assert again.get("/").status_code == 401


def test_the_last_admin_stays(context: Context, admin: Person) -> None:
    assert admin.post("/people/admin-person", role="viewer").status_code == 422
    assert admin.post("/people/admin-person", enabled="no").status_code == 422
    assert context.inventory.accounts.admins() == 1


def test_a_token_may_no_more_than_its_scope_and_its_owner(app: Flask, context: Context, admin: Person) -> None:
    made = admin.send("/api/v1/tokens", {"label": "script", "scope": "viewer", "days": 1}).get_json()["token"]
    headers = {"Authorization": f"Bearer {made}"}
    client = app.test_client()
    assert client.get("/api/v1/nodes", headers=headers).status_code == 200
    assert client.post("/api/v1/publish", json={}, headers=headers).status_code == 403
    # A token cannot make itself a stronger one.
    wanted = {"label": "more", "scope": "admin"}
    assert client.post("/api/v1/tokens", json=wanted, headers=headers).status_code == 422
    # Nor through the pages, which act for the person and not for the token.
    assert client.post("/account/token", data=wanted, headers=headers).status_code == 403
    assert client.post("/account/code", data={"remove": "1"}, headers=headers).status_code == 403
    doors.change_account(context, "admin-person", enabled=True)
    (listed,) = context.inventory.accounts.tokens()
    assert admin.send(f"/api/v1/tokens/{listed.id}", None, "DELETE").status_code == 204
    assert client.get("/api/v1/nodes", headers=headers).status_code == 401


def test_an_expired_token_is_void(app: Flask, context: Context, admin: Person) -> None:
    account = context.inventory.accounts.find("admin-person")
    assert account is not None
    over = context.inventory.accounts.issue_token(account, "old", Role.ADMIN, datetime.now(UTC) - timedelta(seconds=1))
    assert app.test_client().get("/api/v1/me", headers={"Authorization": f"Bearer {over}"}).status_code == 401


def test_after_login_only_our_own_pages(app: Flask, admin: Person) -> None:
    given = {"name": "admin-person", "password": PASSWORD}
    for wanted in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""):
        answer = app.test_client().post("/login", data={**given, "next": wanted})
        assert answer.headers["Location"] == "/"
    assert app.test_client().post("/login", data={**given, "next": "/racks?by=power"}).headers["Location"] == (
        "/racks?by=power"
    )


def test_every_answer_has_the_policy(admin: Person) -> None:
    for path in ("/", "/nodes", "/login", "/static/headnode.css", "/api/v1/nodes", "/nodes/none"):
        answer = admin.get(path)
        answer.close()
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_nothing_secret_is_written_down(context: Context, admin: Person) -> None:
    admin.send("/api/v1/bmcs/password", {"nodes": "gpu01", "password": "Canary-9177"})
    admin.post("/account/password", old="Canary-9177", new="Canary-9178 long", again="Canary-9178 long")
    admin.post("/enrol", text="name,mac\nx,y", password="Canary-9179")
    said = " ".join(f"{e.action} {e.nodes} {e.detail}" for e in context.inventory.accounts.entries())
    assert "Canary" not in said
    assert len(context.inventory.accounts.entries()) >= 3
