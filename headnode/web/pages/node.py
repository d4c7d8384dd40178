"""One node: state and why, what happened, what it is made of, what it should be."""

from flask import Blueprint
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import guard, state
from headnode.errors import NotFound
from headnode.lifecycle import triggers
from headnode.model import Node
from headnode.web.rendering import page
from headnode.workflows.nodes import description

node = Blueprint("node", __name__)
EVENTS = 200


def find(name: str) -> Node:
    found = state.context().inventory.node(name)
    if found is None:
        raise NotFound(f"there is no node '{name}'", hint="the list of nodes has them all")
    return found


@node.get("/nodes/<name>")
@guard.needs(Role.VIEWER)
def index(name: str) -> ResponseReturnValue:
    at, found = state.context(), find(name)
    return page("node.html", **now(found), described=description(at.site, found), hardware=at.inventory.hardware(found))


@node.get("/nodes/<name>/now")
@guard.needs(Role.VIEWER)
def current(name: str) -> ResponseReturnValue:
    return page("fragments/node-now.html", **now(find(name)))


@node.get("/nodes/<name>/timeline")
@guard.needs(Role.VIEWER)
def timeline(name: str) -> ResponseReturnValue:
    return page("fragments/timeline.html", **now(find(name)))


def now(found: Node) -> dict[str, object]:
    at = state.context()
    return {
        "node": found,
        "deployments": at.inventory.deployments([found]),
        "events": at.inventory.events(found.name, limit=EVENTS)[::-1],
        "possible": triggers(found.state),
    }
