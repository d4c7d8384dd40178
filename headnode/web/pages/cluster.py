"""The first page: the whole cluster at a glance."""

from flask import Blueprint
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import guard, state
from headnode.web.rendering import page
from headnode.workflows import overview

cluster = Blueprint("cluster", __name__)


@cluster.get("/")
@guard.needs(Role.VIEWER)
def index() -> ResponseReturnValue:
    return page("cluster.html", **values())


@cluster.get("/cluster/now")
@guard.needs(Role.VIEWER)
def now() -> ResponseReturnValue:
    return page("fragments/cluster.html", **values())


def values() -> dict[str, object]:
    at = state.context()
    return {"overview": overview.overview(at, state.roster()), "events": at.inventory.events(limit=12)[::-1]}
