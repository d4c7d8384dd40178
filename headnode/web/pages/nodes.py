"""The table of all nodes: filters in the address, rows in portions."""

from collections.abc import Mapping
from urllib.parse import urlencode

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import guard, state
from headnode.errors import InvalidInput
from headnode.model import State
from headnode.web.rendering import page
from headnode.workflows import roster

nodes = Blueprint("nodes", __name__)
PORTION = 100
MOST_SHOWN = 2000


@nodes.get("/nodes")
@guard.needs(Role.VIEWER)
def index() -> ResponseReturnValue:
    return page("nodes.html", **values(), states=list(State))


@nodes.get("/nodes/rows")
@guard.needs(Role.VIEWER)
def rows() -> ResponseReturnValue:
    """What changes when a filter does; with `from`, only the next rows."""
    name = "fragments/node-rows.html" if "from" in request.args else "fragments/node-table.html"
    return page(name, **values())


def wanted(source: "Mapping[str, str] | None" = None) -> roster.Filter:
    source = request.args if source is None else source
    given = {key: source.get(key, "") for key in ("nodes", "state", "profile", "group", "rack", "text")}
    return roster.Filter(**given, sort=source.get("sort", "name"), descending=source.get("order") == "down")


def values() -> dict[str, object]:
    chosen, snapshot, trouble = wanted(), state.roster(), ""
    try:
        found = roster.choose(snapshot, chosen)
    except InvalidInput as error:
        found, trouble = (), error.message
    start = max(0, request.args.get("from", 0, type=int))
    # A table that was scrolled down is brought up to date as long as it is, so that nothing jumps.
    size = min(MOST_SHOWN, max(PORTION, request.args.get("shown", 0, type=int)))
    shown = found[start : start + size]
    return {
        "filter": chosen,
        "query": urlencode(chosen.given),
        "snapshot": snapshot,
        "members": shown,
        "matching": len(found),
        "next": start + size if start + size < len(found) else None,
        "trouble": trouble,
    }
