"""Who may use this door, one's own password and tokens, and who did what."""

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue

from headnode import vault
from headnode.accounts import Role
from headnode.door import audit, guard, state
from headnode.door.audit import audited
from headnode.errors import HeadnodeError, InvalidInput, NotFound
from headnode.web.rendering import page
from headnode.workflows import doors
from headnode.workflows import people as workflow
from headnode.workflows.personfields import Wish

people = Blueprint("people", __name__)
PORTION = 100


@people.get("/people")
@guard.needs(Role.VIEWER)
def index() -> ResponseReturnValue:
    return page("people.html", **values())


def known_people() -> dict[str, object]:
    """Who logs in on the nodes; without a running directory the page says so."""
    try:
        with workflow.directory(state.context()) as found:
            persons = sorted(found.people(), key=lambda person: person.name)
            return {"persons": persons, "groups": sorted(found.groups(), key=lambda group: group.name), "trouble": ""}
    except HeadnodeError as error:
        return {"persons": [], "groups": [], "trouble": error.message}


def values(link: str = "", invited: str = "") -> dict[str, object]:
    accounts = state.context().inventory.accounts
    admin = state.may("admin")
    return {
        "accounts": accounts.all() if admin else [],
        "tokens": accounts.tokens() if admin else [],
        "link": link,
        "invited": invited,
        "roles": list(Role),
        "ours": state.context().site.directory.mode == "internal",
        **known_people(),
    }


@people.post("/people/invite")
@guard.needs(Role.ADMIN)
@audited("invite")
def invite() -> ResponseReturnValue:
    name, role = request.form.get("name", ""), role_of(request.form.get("role", ""))
    audit.about(detail=f"{name[:32]} as {role}")
    token = doors.invite(state.context(), name, role)
    return page("people.html", **values(f"{request.host_url}join/{token}", name))


@people.post("/people/<name>")
@guard.needs(Role.ADMIN)
@audited("change account")
def change(name: str) -> ResponseReturnValue:
    given = request.form
    audit.about(detail=f"{name[:64]}: {given.get('role') or given.get('enabled', '')}")
    role = role_of(given["role"]) if "role" in given else None
    enabled = given["enabled"] == "yes" if "enabled" in given else None
    doors.change_account(state.context(), name, role=role, enabled=enabled)
    return redirect("/people", 303)


@people.post("/people/users")
@guard.needs(Role.ADMIN)
@audited("add user")
def add_user() -> ResponseReturnValue:
    form = request.form
    audit.about(detail=form.get("name", "")[:64])
    keys = tuple(line.strip() for line in form.get("keys", "").splitlines() if line.strip())
    groups = tuple(form.get("groups", "").replace(",", " ").split())
    wish = Wish(form.get("name", ""), form.get("full_name", ""), form.get("email", ""), keys, groups)
    workflow.add(state.context(), wish)
    return redirect("/people", 303)


@people.post("/people/users/<name>")
@guard.needs(Role.ADMIN)
@audited("change user")
def change_user(name: str) -> ResponseReturnValue:
    """Lock or unlock; everything else is 'headnode user'."""
    locked = request.form.get("locked") == "yes"
    audit.about(detail=f"{name[:64]} {'locked' if locked else 'unlocked'}")
    workflow.set_locked(state.context(), name, locked)
    return redirect("/people", 303)


@people.post("/people/groups")
@guard.needs(Role.ADMIN)
@audited("add group")
def add_group() -> ResponseReturnValue:
    name = request.form.get("name", "")
    audit.about(detail=name[:64])
    workflow.add_group(state.context(), name, None, request.form.get("description", ""))
    return redirect("/people", 303)


def role_of(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise InvalidInput(f"a role is one of {', '.join(Role)}") from None


@people.get("/account")
@guard.needs(Role.VIEWER)
def account() -> ResponseReturnValue:
    return page("account.html", **own())


def own(**more: object) -> dict[str, object]:
    found = state.visitor().account
    secret = doors.new_totp_secret()
    at = state.context()
    return {
        "tokens": at.inventory.accounts.tokens(found),
        "secret": secret,
        "sealed": vault.seal(secret, at.paths.secret_key),
        "address": doors.totp_address(at, found, secret),
        "roles": [role for role in Role if found.role.may(role)],
        "trouble": "",
        "said": "",
        "token": "",
    } | more


@people.post("/account/password")
@guard.needs(Role.VIEWER)
@audited("change password")
def password() -> ResponseReturnValue:
    form = request.form
    if form.get("new", "") != form.get("again", ""):
        raise InvalidInput("the two new passwords are not the same; nothing was changed")
    doors.change_password(state.context(), state.visitor().account, form.get("old", ""), form.get("new", ""))
    return redirect("/login", 303)


@people.post("/account/code")
@guard.needs(Role.VIEWER)
@audited("second factor")
def code() -> ResponseReturnValue:
    at, form = state.context(), request.form
    if "remove" in form:
        audit.about(detail="removed")
        doors.remove_totp(at, state.visitor().account)
        return page("account.html", **own(said="Logins need no code any more."))
    try:
        secret = vault.unseal(form.get("sealed", ""), at.paths.secret_key)
    except HeadnodeError:
        raise InvalidInput("this form was changed on its way; load the page again") from None
    doors.set_totp(at, state.visitor().account, secret, form.get("code", ""))
    return redirect("/account", 303)


@people.post("/account/token")
@guard.needs(Role.VIEWER)
@audited("make token")
def token() -> ResponseReturnValue:
    form = request.form
    days = int(form["days"]) if form.get("days", "").isdecimal() and len(form["days"]) < 6 else 0
    audit.about(detail=form.get("label", "")[:64])
    scope = role_of(form.get("scope", ""))
    made = doors.issue_token(state.context(), state.visitor().account, form.get("label", ""), scope, days)
    return page("account.html", **own(token=made))


@people.post("/account/token/<int:number>/revoke")
@guard.needs(Role.VIEWER)
@audited("revoke token")
def revoke(number: int) -> ResponseReturnValue:
    visitor = state.visitor()
    audit.about(detail=str(number))
    whose = None if visitor.role is Role.ADMIN else visitor.account
    if not state.context().inventory.accounts.revoke_token(min(number, 2**62), whose):
        raise NotFound("there is no such token")
    return redirect((request.form.get("back") == "people" and "/people") or "/account", 303)


@people.get("/audit")
@guard.needs(Role.OPERATOR)
def log() -> ResponseReturnValue:
    before = request.args.get("before", type=int)
    text, who = request.args.get("text", "")[:200], request.args.get("who", "")[:200]
    if before is not None and not 0 < before < 2**62:
        before = None
    found = state.context().inventory.accounts.entries(before=before, limit=PORTION + 1, text=text, who=who)
    more = found[PORTION - 1].id if len(found) > PORTION else None
    return page("audit.html", entries=found[:PORTION], more=more, text=text, who=who)
