"""BMCs and consoles: asking now, what was recorded, passwords, and who else is on the management network."""

import re
import time
from dataclasses import asdict
from typing import Any, Literal

from flask import Response
from pydantic import Field

from headnode.accounts import Role
from headnode.api import documents, shapes
from headnode.api.nodes import find
from headnode.api.operation import Strict, operation
from headnode.door import audit, state
from headnode.errors import InvalidField
from headnode.workflows import (
    actions,
    asking,
    bmcpasswords,
    bmcscan,
    choosing,
    consoles,
    discovery,
    publishing,
    sensors,
)

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN


class AskQuery(Strict):
    nodes: str = Field(min_length=1, max_length=4000)
    """A node set."""
    verb: Literal["power", "sensors", "sel", "identity"] = "power"


@operation("GET", "/bmcs", VIEWER, "Ask BMCs: power, sensors, event log or identity", query=AskQuery,
           reply={"type": "array", "items": {"type": "object"}})  # fmt: skip
def ask_bmcs(query: AskQuery) -> Any:
    at = state.context()
    request = {"verb": query.verb, **({"action": "status"} if query.verb == "power" else {})}
    answers = asking.ask(at, choosing.select(at, query.nodes), request)
    return [{**actions.document(answer), "value": answer.value} for answer in answers]


class HistoryQuery(Strict):
    hours: float = Field(default=6.0, gt=0, le=24 * 400)


@operation("GET", "/nodes/{name}/sensors", VIEWER, "Sensor readings over time", query=HistoryQuery,
           reply={"type": "object"})  # fmt: skip
def sensor_history(name: str, query: HistoryQuery) -> Any:
    return sensors.history(state.context(), find(name), query.hours)


class Since(Strict):
    since: str = Field(default="1h", max_length=16)
    """From so long ago on, such as 30m or 2d."""


@operation("GET", "/nodes/{name}/console", VIEWER, "What a node's console said, without colours", query=Since,
           reply="text/plain")  # fmt: skip
def console_text(name: str, query: Since) -> Any:
    at, start = state.context(), moment(query.since)
    text = consoles.text_since(at.paths.consoles / find(name).name, start)
    return Response(text, mimetype="text/plain")


class Grep(Since):
    nodes: str = Field(min_length=1, max_length=4000)
    text: str = Field(min_length=1, max_length=200)
    """Searched for as it is, in capital or small letters; the command line takes regular expressions."""


@operation("GET", "/consoles", VIEWER, "Lines of recorded consoles with this text in them", query=Grep,
           reply=list[shapes.LineFound])  # fmt: skip
def search_consoles(query: Grep) -> Any:
    at = state.context()
    # No regular expression from outside: one can be made that keeps this whole process busy for hours.
    pattern = re.compile(re.escape(query.text), re.IGNORECASE)
    names = [node.name for node in choosing.select(at, query.nodes)]
    found = consoles.search(at.paths.consoles, names, pattern, moment(query.since))
    return [{"at": stamp, "node": name, "text": text} for stamp, name, text in found]


class NewPassword(Strict):
    nodes: str = Field(min_length=1, max_length=4000)
    password: str | None = Field(default=None, min_length=1, max_length=64)
    """None gives each BMC a random one that Headnode alone knows."""
    known: bool = False
    """The BMCs have it already: only prove it and remember it."""


@operation("POST", "/bmcs/password", ADMIN, "Change the password at BMCs, or tell Headnode the one they have",
           body=NewPassword, reply=list[shapes.NodeAnswer])  # fmt: skip
def set_bmc_password(body: NewPassword) -> Any:
    at = state.context()
    chosen = choosing.select(at, body.nodes)
    audit.about([node.name for node in chosen])
    if body.known and body.password is None:
        raise InvalidField("password", "", "say which one the BMCs have")
    act = bmcpasswords.adopt if body.known else bmcpasswords.rotate
    return [actions.document(answer) for answer in act(at, chosen, body.password)]


class Scan(Strict):
    network: str = Field(min_length=1, max_length=32)
    """A part of the management network, such as 10.21.0.0/24."""
    user: str | None = Field(default=None, max_length=64)
    password: str | None = Field(default=None, max_length=64)
    rotate: bool = False
    """Give BMCs that have a vendor's password a random one."""


@operation("POST", "/bmcs/scan", ADMIN, "Who is on the management network", body=Scan, reply=list[shapes.Found])
def scan_bmcs(body: Scan) -> Any:
    at = state.context()
    audit.about(detail=body.network)
    return [asdict(found) for found in bmcscan.scan_with(at, body.network, body.user, body.password, body.rotate)]


@operation("GET", "/seen", VIEWER, "Unknown hardware that asked for an address", reply=list[shapes.SightingShown])
def list_seen() -> Any:
    return [documents.sighting(found) for found in discovery.seen(state.context())]


@operation("GET", "/discovery", VIEWER, "The discovery window", reply=shapes.WindowShown)
def show_window() -> Any:
    found = discovery.open_window(state.context())
    if found is None:
        return {"until": None, "first": None, "last": None}
    return {"until": documents.moment(found.until), "first": found.first, "last": found.last}


class Opening(Strict):
    duration: str = Field(default="30m", max_length=16)
    """How long, such as 90s, 30m or 2h; 0 closes it."""


@operation("PUT", "/discovery", OPERATOR, "Lend addresses to unknown hardware for a while", body=Opening,
           reply=shapes.WindowShown)  # fmt: skip
def set_window(body: Opening) -> Any:
    at = state.context()
    audit.about(detail=body.duration)
    if body.duration == "0":
        discovery.close(at, "by hand")
    else:
        discovery.open_for(at, discovery.parse_duration(body.duration, "duration"))
    publishing.publish_changes(at)
    return show_window()


def moment(text: str) -> float:
    return time.time() - discovery.parse_duration(text, "since").total_seconds()
