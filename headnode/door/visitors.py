"""Who somebody is, by what they hold: a session's cookie or a token. Asked at every request, and while one goes on."""

import hashlib
from collections.abc import Callable
from datetime import timedelta

from headnode.accounts import Role
from headnode.door.state import Door, Visitor
from headnode.errors import HeadnodeError
from headnode.log import logger


def by_session(door: Door, session: str) -> Visitor | None:
    idle = timedelta(minutes=door.context.site.web.idle_minutes)
    account = door.context.inventory.accounts.session(session, idle)
    role = door.standing.role(door.context, account) if account else None
    return Visitor(account, role, "web", csrf_of(session), session=session) if account and role else None


def by_token(door: Door, token: str) -> Visitor | None:
    found = door.context.inventory.accounts.token(token)
    if found is None:
        return None
    account, scope = found
    role = door.standing.role(door.context, account)
    return Visitor(account, lesser(role, scope), "api", token=token) if role else None


def lesser(one: Role, other: Role) -> Role:
    return min(one, other, key=lambda role: role.rank)


def csrf_of(session: str) -> str:
    return hashlib.sha256(b"csrf\0" + session.encode()).hexdigest()


def watched(door: Door, visitor: Visitor) -> Callable[[], bool]:
    """For what stays open: whether the visitor is still in, with all that they could do when it was opened.

    A page that is open is in use; a login that was ended elsewhere ends here too.
    """

    def still() -> bool:
        try:
            found = by_token(door, visitor.token) if visitor.token else by_session(door, visitor.session)
        except HeadnodeError as error:
            # Nobody can tell. It can be opened again in a moment, and an open door cannot be closed afterwards.
            logger("headnode.web").warning("a visitor cannot be looked up", reason=error.message)
            return False
        return found is not None and found.role.may(visitor.role)

    return still
