"""What nobody may read at this door: passwords inside addresses, and answers that are told once."""

import json
import re

import pytest
from flask import Flask

from headnode.hiding import hidden, hidden_in_site
from headnode.workflows import publishing
from headnode.workflows.context import Context
from headnode.workflows.enroll import enroll
from tests.support import row_of
from tests.web.conftest import Person

CANARY = "Canary-9177"
PACKAGES = f"""
packages:
  http_proxy: http://nodes:{CANARY}@proxy.example.org:3128
  mirror: http://nodes:{CANARY}@mirror.example.org/debian
  pip_index: https://nodes:{CANARY}@pip.example.org/simple
"""


@pytest.fixture
def behind_proxy(context: Context) -> Context:
    file = context.paths.site_file
    file.write_text(re.sub(r"(?m)^packages:.*\n( .*\n)*", "", file.read_text()) + PACKAGES)
    context.refresh()
    enroll(context, [row_of(1)])
    return context


def test_nodes_get_the_proxys_password_and_no_page_shows_it(
    behind_proxy: Context, app: Flask, admin: Person, viewer: Person
) -> None:
    at = behind_proxy
    (node,) = at.inventory.nodes(["gpu01"])
    assert any(CANARY in file.content.decode(errors="replace") for file in publishing.render_overlay(at, node).values())
    published = publishing.render(at, everything=True).files
    with_it = [path for path, file in published.items() if CANARY.encode() in file.content]
    assert with_it
    pages = ["/site", "/nodes/gpu01", "/nodes/gpu01/files", "/nodes", "/"]
    answers = ["/publish", "/site", "/nodes/gpu01", "/nodes", "/why?nodes=gpu01", "/status",
               "/nodes/gpu01/files", "/nodes/gpu01/overlay"]  # fmt: skip
    for somebody in (viewer, admin):
        for path in (*pages, *(f"/api/v1{path}" for path in answers)):
            answer = somebody.get(path)
            assert (answer.status_code, CANARY in answer.text) == (200, False), path
        for path in with_it:
            shown = somebody.get(f"/api/v1/render?path={path}").get_json()["content"]
            assert CANARY not in shown
            assert "nodes:…@" in shown
    assert "nodes:…@proxy.example.org:3128" in viewer.get("/nodes/gpu01/files").text


def test_what_was_set_for_a_node_is_hidden_too(behind_proxy: Context, admin: Person, viewer: Person) -> None:
    words = f"ip=dhcp proxy=http://boot:{CANARY}@10.20.0.9:3128/"
    answer = admin.send("/api/v1/nodes/gpu01", {"set": {"kernel_args": words}}, "PATCH")
    assert answer.status_code == 200, answer.text
    assert "boot:…@10.20.0.9:3128" in answer.text
    for path in ("/nodes/gpu01", "/api/v1/nodes/gpu01", "/api/v1/nodes", "/api/v1/events", "/nodes/gpu01/timeline"):
        assert CANARY not in viewer.get(path).text, path
    for path in ("/audit", "/api/v1/audit"):
        assert CANARY not in admin.get(path).text, path
    # Whoever has read it may still say which version they have read.
    seen = admin.get("/api/v1/nodes/gpu01").headers["ETag"]
    assert admin.send("/api/v1/nodes/gpu01", {"set": {"rack": "r8"}}, "PATCH", If_Match=seen).status_code == 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://u:p@h:1/", "http://u:…@h:1/"),
        ("http://u:p@ss@h", "http://u:…@h"),
        ("https://:p@h", "https://:…@h"),
        ("a http://h:80/images/gpu@2 b", "a http://h:80/images/gpu@2 b"),
        ("http://h:80\nmail a@b", "http://h:80\nmail a@b"),
        ('"http://h:80","a@b"', '"http://h:80","a@b"'),
        ("http://user@h", "http://user@h"),
    ],
)
def test_only_the_password_is_hidden(text: str, said: str) -> None:
    assert hidden(text) == said
    assert json.loads(hidden(json.dumps({"text": text}))) == {"text": said}


def test_the_address_of_a_database_may_hold_anything() -> None:
    assert hidden_in_site("url: postgresql://u:a/b@c'd@h/db\n") == "url: postgresql://u:…@h/db\n"


# Answers that are told once


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/v1/tokens", {"label": "script", "scope": "viewer", "days": 1}, "token"),
        ("/api/v1/accounts", {"name": "bob", "role": "viewer"}, "link"),
    ],
)
def test_a_secret_answer_is_not_kept(
    context: Context, admin: Person, path: str, body: dict[str, str], field: str
) -> None:
    first = admin.send(path, body, Idempotency_Key="one")
    secret = first.get_json()[field].rpartition("/")[2]
    assert len(secret) > 20
    assert not kept(context, secret)
    tokens = context.inventory.accounts.tokens()
    again = admin.send(path, body, Idempotency_Key="one")
    assert (again.status_code, again.mimetype) == (409, "application/problem+json")
    assert "told once" in again.get_json()["detail"]
    assert context.inventory.accounts.tokens() == tokens, "nothing is done twice"
    assert admin.send(path, body, Idempotency_Key="two").status_code == 200


def kept(context: Context, secret: str) -> bool:
    """In any file of the site, the database's among them, in whatever column."""
    files = [path for path in context.paths.root.rglob("*") if path.is_file()]
    assert any(b"SQLite format 3" in path.read_bytes()[:20] for path in files)
    return any(secret.encode() in path.read_bytes() for path in files)
