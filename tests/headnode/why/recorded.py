"""Recorded cases as YAML: what the engine was given on some bad day, and what it should say."""

import copy
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from headnode.model import BmcAccess, Event, Intent, Nic, Node, Severity, Sighting, State
from headnode.why.case import Asked, Case
from headnode.why.timeline import Timeline

CASES = Path(__file__).parent / "cases"
SETTINGS = ("architecture", "layout", "image", "method")


def read(path: Path) -> dict[str, Any]:
    """A copy of its own: tests change what they read."""
    return copy.deepcopy(parsed(path, path.stat().st_mtime_ns))


@cache
def parsed(path: Path, _: int) -> dict[str, Any]:
    found = yaml.load(path.read_text(), yaml.CSafeLoader)
    assert isinstance(found, dict)
    return found


def case_of(document: dict[str, Any]) -> Case:
    node = node_of(document["name"], document["node"]) if document.get("node") else None
    asked = document.get("asked") or {}
    return Case(
        name=document["name"],
        now=moment(document["now"]),
        node=node,
        asked=Asked(**{**asked, "at": moment(asked["at"])}) if asked.get("at") else Asked(**asked),
        timeline=Timeline.of(event_of(e, n, document["name"]) for n, e in enumerate(document.get("events", []), 1)),
        head=Timeline.of(event_of(e, n, None) for n, e in enumerate(document.get("head", []), 1)),
        sightings=tuple(
            Sighting(s["mac"], moment(s["last"]), moment(s["last"])) for s in document.get("sightings", [])
        ),
        foreign=tuple(document.get("foreign", ())),
        hardware=document.get("hardware", {}),
        settings=document.get("settings", {}),
        published=document.get("published", True),
        serving=document.get("serving", True),
    )


def moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(str(value))


def node_of(name: str, said: dict[str, Any]) -> Node:
    return Node(
        name,
        "gpu",
        (Nic(said["mac"], address=said.get("address")),) if said.get("mac") else (),
        BmcAccess("10.21.0.1") if said.get("bmc") else None,
        State(said["state"]),
        Intent(said.get("intent", "disk")),
        phase=said.get("phase"),
        reason=said.get("reason"),
    )


def event_of(said: dict[str, Any], number: int, node: str | None) -> Event:
    return Event(
        said["kind"],
        said["message"],
        said.get("actor", "boot plane"),
        "",
        node,
        Severity(said.get("severity", "info")),
        said.get("data", {}),
        moment(said["at"]),
        number,
    )


def to_document(case: Case, about: str, expect: dict[str, Any]) -> dict[str, Any]:
    """A case of a running site as it is kept here: everything the engine looks at, and nothing else."""
    node = case.node
    document: dict[str, Any] = {"about": about, "name": case.name, "now": case.now.isoformat(timespec="seconds")}
    if node:
        kept = {"state": node.state.value, "intent": node.intent.value, "mac": node.mac, "address": node.address}
        document["node"] = {**kept, "bmc": node.bmc is not None, "phase": node.phase, "reason": node.reason}
    asked = case.asked
    if asked.at:
        document["asked"] = {
            "what": asked.what, "at": asked.at.isoformat(), "image": asked.image, "step": asked.step,
            "result": asked.result,
        }  # fmt: skip
    document["events"] = [event_document(event) for event in case.timeline]
    if case.head.events:
        document["head"] = [event_document(event) for event in case.head if event.kind.startswith("dhcp")]
    if case.sightings:
        document["sightings"] = [{"mac": s.mac, "last": s.last.isoformat()} for s in case.sightings]
    document["foreign"] = list(case.foreign)
    document["settings"] = {key: case.settings[key] for key in SETTINGS if key in case.settings}
    memory = case.hardware.get("memory_bytes")
    document["hardware"] = {"memory_bytes": memory} if memory else {}
    document.update(published=case.published, serving=case.serving, expect=expect)
    return {key: value for key, value in document.items() if value not in ({}, [])}


def event_document(event: Event) -> dict[str, Any]:
    document = {
        "at": event.at.isoformat() if event.at else None, "kind": event.kind, "message": event.message,
        "actor": event.actor, "severity": event.severity.value, "data": dict(event.data),
    }  # fmt: skip
    return {key: value for key, value in document.items() if value not in ("info", {}, "boot plane")}


def write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))
