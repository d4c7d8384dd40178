"""Coming in, going out, and taking up an invitation."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from flask import Blueprint, redirect, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.wrappers import Response

from headnode.accounts import Account, Entry, Role
from headnode.door import guard, state
from headnode.door.audit import origin
from headnode.errors import HeadnodeError, NotFound
from headnode.workflows import doors

login = Blueprint("login", __name__)


@login.get("/login")
@guard.open_to_all
def form() -> ResponseReturnValue:
    return render_template("login.html", next=request.args.get("next", "/"), trouble="", name="")


@login.post("/login")
@guard.open_to_all
def enter() -> ResponseReturnValue:
    given = {key: request.form.get(key, "") for key in ("name", "password", "code")}
    wanted = request.form.get("next", "/")
    at = state.context()
    try:
        account = doors.log_in(at, state.door().brake, **given, address=origin())
    except (doors.Refused, doors.TooMany) as error:
        write_down(given["name"], "login", "refused", error.message)
        status = 429 if isinstance(error, doors.TooMany) else 401
        page = render_template("login.html", next=wanted, trouble=error.message, name=given["name"][:64])
        return page, status
    state.door().standing.forget(account.name)
    write_down(account.name, "login", "done", "")
    return with_session(redirect(local(wanted), 303), account)


@login.post("/logout")
@guard.needs(Role.VIEWER)
def leave() -> ResponseReturnValue:
    state.context().inventory.accounts.close_session(state.visitor().session)
    answer = redirect("/login", 303)
    answer.delete_cookie(guard.cookie_name(), path="/", secure=state.door().context.site.web.encrypted)
    return answer


@login.get("/join/<token>")
@guard.open_to_all
def invitation(token: str) -> ResponseReturnValue:
    found = state.context().inventory.accounts.invitation(token)
    if found is None:
        raise NotFound("this link was used already, or is too old", hint="an admin can make a new one")
    return render_template("join.html", token=token, invitation=found, trouble="", name="")


@login.post("/join/<token>")
@guard.open_to_all
def join(token: str) -> ResponseReturnValue:
    at = state.context()
    name, password = request.form.get("name", ""), request.form.get("password", "")
    found = at.inventory.accounts.invitation(token)
    try:
        if password != request.form.get("again", ""):
            raise HeadnodeError("the two passwords are not the same")
        chosen = doors.accept(at, token, name, password)
    except HeadnodeError as error:
        if found is None:
            raise
        page = render_template("join.html", token=token, invitation=found, trouble=error.message, name=name[:64])
        return page, 422
    account = at.inventory.accounts.find(chosen)
    if account is None:
        raise NotFound("the account was removed in this very moment")
    write_down(chosen, "join", "done", f"as {account.role}")
    return with_session(redirect("/", 303), account)


def with_session(answer: Response, account: Account) -> Response:
    web = state.door().context.site.web
    lasting = timedelta(hours=web.session_hours)
    token = state.context().inventory.accounts.open_session(account, origin(), datetime.now(UTC) + lasting)
    answer.set_cookie(
        guard.cookie_name(), token, max_age=int(lasting.total_seconds()), path="/", secure=web.encrypted,
        httponly=True, samesite="Lax",
    )  # fmt: skip
    return answer


def write_down(name: str, action: str, result: str, detail: str) -> None:
    who = "".join(c for c in name[:64] if c.isprintable()) or "(no name)"
    entry = Entry(who, origin(), "web", action, result=result, detail=detail)
    state.context().inventory.accounts.write(entry)


def local(address: str) -> str:
    """Only ever to a page of ours."""
    parts = urlsplit(address)
    good = address.startswith("/") and not address.startswith(("//", "/\\")) and not parts.netloc
    return address if good and address.isprintable() else "/"
