"""One node: state and why, what happened, its console, what it is made of, what it should be."""

import base64
import secrets
import time

from flask import Blueprint, Response, g, jsonify, request
from flask.typing import ResponseReturnValue

from headnode.accounts import Role
from headnode.door import guard, state, tunnel
from headnode.errors import HeadnodeError, NotFound
from headnode.model import Node
from headnode.web.rendering import page
from headnode.workflows import asking, consoles, discovery, publishing, sensors, sites, why
from headnode.workflows.hardware import shown
from headnode.workflows.nodes import description
from ipmi.recording import Kind, read

node = Blueprint("node", __name__)
EVENTS = 200
LAST_WORDS = 4000
MOST_REPLAYED = 4_000_000


def find(name: str) -> Node:
    found = state.context().inventory.node(name)
    if found is None:
        raise NotFound(f"there is no node '{name[:63]}'", hint="the list of nodes has them all")
    return found


@node.get("/nodes/<name>")
@guard.needs(Role.VIEWER)
def index(name: str) -> ResponseReturnValue:
    at, found = state.context(), find(name)
    # The terminal brings style sheets of its own, which only this page lets in.
    g.style_nonce = secrets.token_urlsafe(16)
    directory = at.paths.consoles / found.name
    return page(
        "node.html",
        **now(found),
        nonce=g.style_nonce,
        described=description(at.site, found),
        hardware=shown(report) if (report := at.inventory.hardware(found)) else None,
        recorded=consoles.exists_since(directory) is not None,
        last_words=consoles.text_since(directory, time.time() - 86_400)[-LAST_WORDS:],
    )


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
    answer = why.why_node(at, found)
    return {
        "node": found,
        "deployments": at.inventory.deployments([found]),
        "events": at.inventory.events(found.name, limit=EVENTS)[::-1],
        "why": answer,
        "next": why.next_command(answer.finding, [found.name]) if answer.finding else "",
    }


@node.get("/nodes/<name>/power")
@guard.needs(Role.VIEWER)
def power(name: str) -> ResponseReturnValue:
    """Asked for by the page once it is there: a BMC takes its time."""
    found = find(name)
    (answer,) = asking.ask(state.context(), [found], {"verb": "power", "action": "status"})
    return page("fragments/power.html", answer=answer)


@node.get("/nodes/<name>/files")
@guard.needs(Role.VIEWER)
def files(name: str) -> ResponseReturnValue:
    at, found = state.context(), find(name)
    trouble = ""
    made = {path: sites.shown_file(at, file.content) for path, file in publishing.render_node(at, found).items()}
    try:
        overlay = publishing.render_overlay(at, found)
        made |= {path: sites.shown_file(at, file.content) for path, file in overlay.items()}
    except HeadnodeError as error:
        trouble = error.message
    return page("files.html", node=found, files=dict(sorted(made.items())), trouble=trouble)


@node.get("/nodes/<name>/sensors")
@guard.needs(Role.VIEWER)
def plots(name: str) -> ResponseReturnValue:
    hours = min(24.0 * 400, max(0.1, request.args.get("hours", 6.0, type=float)))
    return jsonify(sensors.history(state.context(), find(name), hours))


@node.get("/nodes/<name>/console", websocket=True)
@guard.needs(Role.VIEWER)
def console(name: str) -> ResponseReturnValue:
    return tunnel.console(find(name), share="share" in request.args)


@node.get("/nodes/<name>/recording")
@guard.needs(Role.VIEWER)
def recording(name: str) -> ResponseReturnValue:
    """What was said, with the seconds before each piece, for playing it back."""
    since = time.time() - discovery.parse_duration(request.args.get("since", "1h"), "since").total_seconds()
    pieces, size = [], 0
    for pause, record in consoles.pauses(read(state.context().paths.consoles / find(name).name, since), 1.0):
        size += len(record.data)
        if size > MOST_REPLAYED:
            break
        pieces.append([round(pause, 3), base64.b64encode(consoles.shown(record)).decode(), record.kind is Kind.DATA])
    answer: Response = jsonify(pieces)
    return answer
