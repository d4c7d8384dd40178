"""The first page: the whole cluster at a glance."""

from flask import Blueprint
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import guard, state
from headnode.web.rendering import page
from headnode.workflows import glance, overview

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
    at, snapshot, known = state.context(), state.roster(), state.door().glances.now()
    return {
        "overview": overview.overview(at, snapshot),
        "events": at.inventory.events(limit=12)[::-1],
        "racks": glance.power_by_rack(at, snapshot, known),
        "outliers": glance.outliers(snapshot, known),
        "known": known,
    }
