"""What one process of the people's door keeps, and what one request knows."""

from dataclasses import dataclass, field
from typing import cast

from flask import Flask, current_app, g

from headnode.accounts import Account, Role
from headnode.door.jobs import Jobs
from headnode.door.live import Pulse
from headnode.workflows.context import Context
from headnode.workflows.doors import Brake
from headnode.workflows.glance import Glances
from headnode.workflows.roster import Roster, Snapshot
from headnode.workflows.standing import Standing

KEY = "headnode"


@dataclass(frozen=True)
class Door:
    context: Context
    roster: Roster
    pulse: Pulse
    brake: Brake
    jobs: Jobs
    glances: Glances
    standing: Standing


@dataclass(frozen=True)
class Visitor:
    """Who is asking, and what they may: a token's scope may be less than its owner's role."""

    account: Account
    role: Role
    # "web" for a session, "api" for a token.
    door: str
    # Empty for a token, which no other site's page could send.
    csrf: str = ""
    # What they hold, of which one is empty.
    session: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


def install(app: Flask, door: Door) -> None:
    app.extensions[KEY] = door


def door() -> Door:
    return cast(Door, current_app.extensions[KEY])


def context() -> Context:
    """The place, on behalf of whoever is asking."""
    return cast(Context, g.context)


def visitor() -> Visitor:
    return cast(Visitor, g.visitor)


def maybe_visitor() -> Visitor | None:
    return cast("Visitor | None", g.get("visitor"))


def roster() -> Snapshot:
    return door().roster.now()


def may(role: str) -> bool:
    """For pages: whether to offer something at all. The guard is who refuses."""
    found = maybe_visitor()
    return found is not None and found.role.may(Role(role))
