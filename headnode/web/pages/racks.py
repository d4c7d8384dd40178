"""Racks as they stand: drawn from positions, coloured by state, temperature or power."""

from dataclasses import dataclass

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from headnode import nodeset
from headnode.accounts import Role
from headnode.door import guard, state
from headnode.model import Node
from headnode.web.rendering import page
from headnode.workflows.glance import Glance

racks = Blueprint("racks", __name__)
COLOURS = ("state", "temperature", "power")
USUAL_HEIGHT = 42


@dataclass(frozen=True)
class Slot:
    node: Node
    unit: int
    colour: str
    words: str
    more: str = ""


@dataclass(frozen=True)
class Elevation:
    name: str
    units: int
    location: str
    slots: list[Slot]
    # Known to be in this rack, but not where.
    loose: list[Slot]


@racks.get("/racks")
@guard.needs(Role.VIEWER)
def index() -> ResponseReturnValue:
    return page("racks.html", **values())


@racks.get("/racks/now")
@guard.needs(Role.VIEWER)
def now() -> ResponseReturnValue:
    return page("fragments/racks.html", **values())


def values() -> dict[str, object]:
    by = request.args.get("by", "state")
    by = by if by in COLOURS else "state"
    site, known = state.context().site, state.door().glances.now()
    found: dict[str, list[Node]] = {name: [] for name in site.racks}
    homeless = 0
    for member in state.roster().members:
        if member.node.rack:
            found.setdefault(member.node.rack, []).append(member.node)
        else:
            homeless += 1
    drawn = [elevation(name, found[name], by, known) for name in sorted(found, key=nodeset.natural_key)]
    return {"racks": drawn, "by": by, "colours": COLOURS, "homeless": homeless, "known": bool(known)}


def elevation(name: str, nodes: list[Node], by: str, known: dict[str, Glance]) -> Elevation:
    rack = state.context().site.racks.get(name)
    slots = [slot(node, by, known.get(node.name, Glance())) for node in nodes]
    highest = max((item.unit for item in slots), default=0)
    return Elevation(
        name,
        max(rack.units if rack else USUAL_HEIGHT, highest),
        rack.location if rack else "",
        sorted((item for item in slots if item.unit), key=lambda item: item.unit),
        [item for item in slots if not item.unit],
    )


def slot(node: Node, by: str, seen: Glance) -> Slot:
    if by == "temperature":
        at = seen.temperature
        colour = "unknown" if at is None else "hot" if at >= 80 else "warm" if at >= 60 else "cool"
        words = "no reading" if at is None else f"{at:g} °C"
        return Slot(node, node.position or 0, colour, words, seen.sensor)
    if by == "power":
        colour = "unknown" if seen.power is None else "on" if seen.power else "off"
        words = "not known" if seen.power is None else "off" if not seen.power else f"{seen.watts or 0:g} W"
    else:
        colour, words = node.state.value, node.state.value
    return Slot(node, node.position or 0, colour, words)
