"""Nobody passes unseen: every request is somebody's, may what it asks, and comes from our own pages.

A route says with `needs` what it takes, or with `open_to_all` that it takes nothing; one that says neither keeps the
application from starting.
"""

import hmac
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from flask import Flask, Response, current_app, g, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import Forbidden, Unauthorized

from headnode.accounts import Role
from headnode.door import visitors
from headnode.door.state import Visitor, door

View = TypeVar("View", bound=Callable[..., ResponseReturnValue])
OPEN = "open"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{style}; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
LONGEST_TOKEN = 200


def needs(role: Role) -> Callable[[View], View]:
    def mark(view: View) -> View:
        view.needs = role.value  # type: ignore[attr-defined]
        return view

    return mark


def open_to_all(view: View) -> View:
    view.needs = OPEN  # type: ignore[attr-defined]
    return view


def needed(app: Flask, endpoint: str) -> str:
    """What a route takes; files of ours that everybody may have are served by Flask itself."""
    return OPEN if endpoint == "static" else str(getattr(app.view_functions[endpoint], "needs", ""))


def install(app: Flask) -> None:
    app.before_request(admit)
    app.after_request(protect)


def refuse_unmarked(app: Flask) -> None:
    for endpoint in app.view_functions:
        if not needed(app, endpoint):
            raise RuntimeError(f"the route {endpoint} does not say who may use it")


def admit() -> None:
    here = door()
    here.context.refresh()
    g.visitor = visitor = recognise()
    who = visitor.account.name if visitor else "nobody"
    door_name = visitor.door if visitor else "web"
    g.context = here.context.acting(who, f"{door_name}: {request.method} {request.path}"[:500])
    if request.endpoint is None:
        # What is not there is told only to those who are in.
        if visitor is None:
            raise Unauthorized("log in, or send a token")
        return
    wanted = needed(current_app, request.endpoint)
    if request.method not in SAFE:
        refuse_foreign_pages(visitor)
    if wanted == OPEN:
        return
    if visitor is None:
        raise Unauthorized("log in, or send a token")
    if visitor.door == "api" and not request.path.startswith("/api/"):
        # Pages act for the person: with a narrow token one could make oneself a wide one there.
        raise Forbidden("a token is for the API, below /api/; the pages need a login")
    if not visitor.role.may(Role(wanted)):
        raise Forbidden(f"this needs the role {wanted}, and {visitor.account.name} has {visitor.role} here")


def recognise() -> Visitor | None:
    """By a token in the header, or by the session's cookie; never by both."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind:
        if kind != "Bearer" or not 0 < len(token) <= LONGEST_TOKEN:
            raise Unauthorized("the header Authorization needs the form 'Bearer TOKEN'")
        found = visitors.by_token(door(), token)
        if found is None:
            raise Unauthorized("this token is not valid, or not any more")
        return found
    session = request.cookies.get(cookie_name(), "")
    return visitors.by_session(door(), session) if 0 < len(session) <= LONGEST_TOKEN else None


def cookie_name() -> str:
    """A browser takes the prefix for a promise: only over HTTPS, only for this host."""
    return "__Host-headnode" if door().context.site.web.encrypted else "headnode"


def refuse_foreign_pages(visitor: Visitor | None) -> None:
    """A write comes from a page of ours: the browser names its origin, and the page knows the session's mark."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise Forbidden("this was sent by another site's page; nothing was changed")
    if visitor is None or visitor.door != "web":
        return
    given = request.headers.get("X-CSRF-Token") or request.form.get("csrf", "")
    if not hmac.compare_digest(given.encode(), visitor.csrf.encode()):
        raise Forbidden("this form was too old or not ours; nothing was changed. Load the page again")


def protect(answer: Response) -> Response:
    nonce = g.get("style_nonce")
    style = f" 'nonce-{nonce}'" if nonce else ""
    answer.headers.setdefault("Content-Security-Policy", POLICY.format(style=style))
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Referrer-Policy"] = "same-origin"
    answer.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    answer.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    if door().context.site.web.encrypted:
        answer.headers["Strict-Transport-Security"] = "max-age=31536000"
    if request.endpoint != "static":
        answer.headers.setdefault("Cache-Control", "private, no-cache")
        answer.headers.setdefault("Vary", "Cookie, HX-Request")
    return answer
