"""Accounts at this door, tokens, and what was done."""

from typing import Any

from pydantic import Field

from headnode.accounts import Role
from headnode.api import documents, shapes
from headnode.api.operation import Strict, operation
from headnode.door import audit, state
from headnode.errors import NotFound
from headnode.workflows import doors

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN


@operation("GET", "/me", VIEWER, "Who you are here", reply={"type": "object"})
def me() -> Any:
    visitor = state.visitor()
    return {**documents.account(visitor.account), "role_here": visitor.role.value, "door": visitor.door}


@operation("GET", "/accounts", ADMIN, "Who may come in", reply=list[shapes.AccountShown])
def list_accounts() -> Any:
    return [documents.account(found) for found in state.context().inventory.accounts.all()]


class Invite(Strict):
    name: str = Field(min_length=1, max_length=32)
    role: Role = Role.VIEWER


@operation("POST", "/accounts", ADMIN, "Invite somebody, or let them choose a new password", body=Invite,
           reply=shapes.Invited, secret=True)  # fmt: skip
def invite(body: Invite) -> Any:
    at = state.context()
    audit.about(detail=f"{body.name} as {body.role}")
    return {"link": f"{doors.address(at)}/join/{doors.invite(at, body.name, body.role)}"}


class AccountChange(Strict):
    role: Role | None = None
    enabled: bool | None = None


@operation("PATCH", "/accounts/{name}", ADMIN, "Change somebody's role, or shut them out", body=AccountChange,
           reply=shapes.AccountShown)  # fmt: skip
def change_account(name: str, body: AccountChange) -> Any:
    audit.about(detail=f"{name[:64]}: role {body.role}, enabled {body.enabled}")
    return documents.account(doors.change_account(state.context(), name, role=body.role, enabled=body.enabled))


@operation("GET", "/tokens", VIEWER, "Your tokens; an admin sees everybody's", reply=list[shapes.TokenShown])
def list_tokens() -> Any:
    visitor = state.visitor()
    whose = None if visitor.role is Role.ADMIN else visitor.account
    return [documents.token(found) for found in state.context().inventory.accounts.tokens(whose)]


class NewToken(Strict):
    label: str = Field(min_length=1, max_length=64)
    scope: Role = Role.VIEWER
    days: int = Field(default=90, ge=1, le=366)


@operation("POST", "/tokens", VIEWER, "A token for programs", body=NewToken, reply=shapes.TokenMade, secret=True)
def make_token(body: NewToken) -> Any:
    visitor = state.visitor()
    audit.about(detail=f"{body.label}, {body.scope}, {body.days} days")
    if not visitor.role.may(body.scope):
        raise doors.refused_scope(body.scope, visitor.role)
    return {"token": doors.issue_token(state.context(), visitor.account, body.label, body.scope, body.days)}


@operation("DELETE", "/tokens/{id}", VIEWER, "Make a token void")
def revoke_token(id: str) -> None:
    visitor = state.visitor()
    whose = None if visitor.role is Role.ADMIN else visitor.account
    audit.about(detail=id[:64])
    if not id.isascii() or not id.isdecimal() or len(id) > 15:
        raise NotFound("there is no such token")
    if not state.context().inventory.accounts.revoke_token(int(id), whose):
        raise NotFound("there is no such token")


class AuditQuery(Strict):
    before: int | None = Field(default=None, ge=1, le=2**62)
    """Only lines with a smaller id: to read on."""
    limit: int = Field(default=100, ge=1, le=1000)
    text: str = Field(default="", max_length=200)
    who: str = Field(default="", max_length=200)


@operation("GET", "/audit", OPERATOR, "Who did what to which nodes, newest first", query=AuditQuery,
           reply=list[shapes.EntryShown])  # fmt: skip
def list_audit(query: AuditQuery) -> Any:
    found = state.context().inventory.accounts.entries(
        before=query.before, limit=query.limit, text=query.text, who=query.who
    )
    return [documents.entry(entry) for entry in found]
