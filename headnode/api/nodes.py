"""Nodes, their history, and what is rendered for them."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from headnode.accounts import Role
from headnode.api import documents, shapes
from headnode.api.operation import Strict, encoded, operation, refuse_changed
from headnode.door import audit, state, streams
from headnode.errors import InvalidField, NotFound
from headnode.model import Node
from headnode.workflows import actions, choosing, overview, publishing, roster, sites
from headnode.workflows import enroll as enrolling
from headnode.workflows import nodes as workflow
from headnode.workflows.sheet import Row, read

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN
MOST = 10_000


class NodeQuery(Strict):
    nodes: str = Field(default="", max_length=4000)
    """A node set, such as gpu[01-16] or @a100."""
    state: str = Field(default="", max_length=64)
    profile: str = Field(default="", max_length=64)
    group: str = Field(default="", max_length=64)
    rack: str = Field(default="", max_length=64)
    text: str = Field(default="", max_length=200)
    """Words that must all be somewhere in it."""
    sort: str = Field(default="name", max_length=16)
    """name, state, profile, rack, address or bmc."""
    fields: str = Field(default="", max_length=1000)
    """Only these fields, separated by commas."""
    limit: int = Field(default=1000, ge=1, le=MOST)
    after: str = Field(default="", max_length=64)
    """The `next` of the page before."""


@operation("GET", "/cluster", VIEWER, "Counts, what needs attention, what is under way", reply=shapes.Counts)
def cluster() -> Any:
    found = overview.overview(state.context(), state.roster())
    concerns = [{"title": c.title, "detail": c.detail, "nodes": c.nodes, "weight": c.weight} for c in found.concerns]
    return {
        "total": found.total,
        "states": {str(name): number for name, number in found.states},
        "concerns": concerns,
        "running": [documents.deployment(work) for work in found.running],
    }


@operation("GET", "/nodes", VIEWER, "List nodes", query=NodeQuery, reply=shapes.NodePage)
def list_nodes(query: NodeQuery) -> Any:
    chosen = {key: getattr(query, key) for key in ("nodes", "state", "profile", "group", "rack", "text", "sort")}
    found = roster.choose(state.roster(), roster.Filter(**chosen))
    start = next((i + 1 for i, member in enumerate(found) if member.node.name == query.after), 0) if query.after else 0
    if query.after and not start:
        raise InvalidField("after", query.after, "use the `next` of the page before")
    page = found[start : start + query.limit]
    more = page[-1].node.name if page and start + query.limit < len(found) else None
    fields = [name.strip() for name in query.fields.split(",") if name.strip()]
    rest = f', "total": {len(found)}, "next": '.encode() + encoded(more) + b"}"
    if not fields:
        # The usual question, and the largest answer: every node's part was made when the node changed.
        return b'{"items": [' + b", ".join(member.encoded for member in page) + b"]" + rest
    known = set(choosing.document(Node("", "")))
    if wrong := [name for name in fields if name not in known]:
        raise InvalidField("fields", wrong[0], f"use {', '.join(sorted(known))}")
    return b'{"items": ' + encoded(documents.selected([dict(m.document) for m in page], fields)) + rest


@operation("GET", "/nodes/{name}", VIEWER, "Everything about a node, and who gave each value",
           reply=shapes.NodeDescribed)  # fmt: skip
def show_node(name: str) -> Any:
    return workflow.description(state.context().site, find(name))


class NodeChange(Strict):
    set: dict[str, str] = Field(min_length=1, max_length=100)
    """Field → value, as `headnode set` takes them; an empty text takes a value away."""


@operation("PATCH", "/nodes/{name}", OPERATOR, "Change fields of a node", body=NodeChange, reply=shapes.NodeDescribed)
def change_node(name: str, body: NodeChange) -> Any:
    at, node = state.context(), find(name)
    audit.about([name], " ".join(f"{key}={value}" for key, value in body.set.items()))
    refuse_changed(workflow.description(at.site, node))
    actions.find("set").run(at, [node], body.set, lambda answer: None)
    return workflow.description(at.site, find(name))


class EventQuery(Strict):
    nodes: str = Field(default="", max_length=4000)
    after: int = Field(default=0, ge=0, le=2**62)
    """Only events with a larger id."""
    limit: int = Field(default=100, ge=1, le=1000)


@operation("GET", "/events", VIEWER, "What happened, oldest first", query=EventQuery, reply=list[shapes.EventShown])
def list_events(query: EventQuery) -> Any:
    at = state.context()
    names = [node.name for node in choosing.select(at, query.nodes, retired=True)] if query.nodes else None
    return [documents.event(found) for found in at.inventory.events(names, limit=query.limit, after=query.after)]


@operation("GET", "/live", VIEWER, "Changes as server-sent events, until you hang up", reply="text/event-stream")
def live() -> Any:
    return streams.news()


@operation("GET", "/nodes/{name}/deployments", VIEWER, "Work done on a node, newest first",
           reply=list[shapes.DeploymentShown])  # fmt: skip
def list_deployments(name: str) -> Any:
    return [documents.deployment(found) for found in state.context().inventory.deployments([find(name)])]


@operation("GET", "/nodes/{name}/hardware", VIEWER, "Hardware as the agent reported it", reply={"type": "object"})
def show_hardware(name: str) -> Any:
    found = state.context().inventory.hardware(find(name))
    if found is None:
        raise NotFound(f"{name} has not reported its hardware", hint="inspect it")
    return found


@operation("GET", "/nodes/{name}/files", VIEWER, "Files published for a node, as they would be now",
           reply=list[shapes.FileShown])  # fmt: skip
def show_files(name: str) -> Any:
    return shown_files(publishing.render_node(state.context(), find(name)))


@operation("GET", "/nodes/{name}/overlay", VIEWER, "Files that make a generic system this node, without secrets",
           reply=list[shapes.FileShown])  # fmt: skip
def show_overlay(name: str) -> Any:
    return shown_files(publishing.render_overlay(state.context(), find(name)))


def shown_files(made: Mapping[str, Any]) -> list[dict[str, str]]:
    at = state.context()
    return [
        {"path": path, "content": sites.shown_file(at, file.content), "mode": f"{file.mode:04o}"}
        for path, file in sorted(made.items())
    ]


class Sheet(Strict):
    text: str = Field(max_length=4_000_000)
    """CSV or YAML with a row for each node, as `headnode enroll --from` takes it."""
    bmc_password: str | None = Field(default=None, max_length=100)
    """Sealed at once; for those of the nodes that have a BMC."""
    dry_run: bool = False


@operation("POST", "/enrol", OPERATOR, "Enrol nodes: all rows or none", body=Sheet, reply=shapes.Enrolment)
def enrol(body: Sheet) -> Any:
    at = state.context()
    rows = read(body.text, "list", at.site)
    if body.dry_run:
        audit.result("looked")
        return documents.plan(enrolling.plan(at.site, rows, at.inventory.nodes(retired=True)))
    audit.about([name for row in rows if (name := good_name(row))])
    made = enrolling.enroll(at, rows, sealed(body.bmc_password))
    publishing.publish_changes(at)
    return documents.plan(made)


def good_name(row: Row) -> str | None:
    name = row.values.get("name", "")
    return name if name.replace("-", "").isalnum() and name.isascii() else None


def sealed(password: str | None) -> str | None:
    from headnode import vault

    return vault.seal(password, state.context().paths.secret_key) if password else None


def find(name: str) -> Node:
    found = state.context().inventory.node(name)
    if found is None:
        raise NotFound(f"there is no node '{name[:63]}'", hint="GET /api/v1/nodes lists them")
    return found
