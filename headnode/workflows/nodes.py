"""Choosing nodes, describing them, changing their fields, and retiring them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from headnode import fields, lifecycle, nodeset, sitechecks
from headnode.effective import SETTINGS, Value, effective, known_profile, parse_setting
from headnode.errors import InvalidField, InvalidInput, NotFound, Taken
from headnode.errors import shown as quoted
from headnode.model import BmcAccess, Event, Intent, Nic, Node, State
from headnode.site import Settings, Site
from headnode.workflows import addresses, enroll
from headnode.workflows.context import Context

FIELDS = ("profile", "rack", "position", "groups", "mac", "address", "bmc", "locked")


@dataclass(frozen=True)
class Edit:
    node: str
    field: str
    before: Any
    after: Any


def select(context: Context, text: str | None) -> list[Node]:
    """The nodes of a node set, in natural order; a name that is not enrolled is refused."""
    if text is None:
        found = context.inventory.nodes()
        return sorted(found, key=lambda node: nodeset.natural_key(node.name))
    groups: dict[str, list[str]] = {}
    if set("@*?") & set(text):
        groups = {"all": context.inventory.names(), **context.inventory.groups()}
    names = nodeset.expand(text, groups=groups)
    found = context.inventory.nodes(names)
    missing = {*names} - {node.name for node in found}
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        hint = "'headnode nodes' lists what is enrolled"
        raise NotFound(f"{nodeset.fold(missing)} {verb} not enrolled", hint=hint)
    if not found:
        raise NotFound(f"no enrolled node is in {quoted(text)}", hint="'headnode nodes' lists what is enrolled")
    return sorted(found, key=lambda node: nodeset.natural_key(node.name))


def document(node: Node) -> dict[str, Any]:
    """A node as every format shows it: one schema for tables, JSON, YAML, CSV and the API."""
    return {
        "name": node.name,
        "state": node.state.value,
        "intent": node.intent.value,
        "profile": node.profile,
        "mac": node.mac,
        "address": node.address,
        "bmc": node.bmc.address if node.bmc else None,
        "bmc_mac": node.bmc.mac if node.bmc else None,
        "rack": node.rack,
        "position": node.position,
        "groups": list(node.groups),
        "locked": node.locked,
        "reason": node.reason,
        "nics": [{"network": nic.network, "mac": nic.mac, "address": nic.address} for nic in node.nics],
        "settings": jsonable(node.settings),
    }


def description(site: Site, node: Node) -> dict[str, Any]:
    """A node with every value in effect and who gave it."""
    own = {key: {"value": value, "source": "node"} for key, value in document(node).items() if key in FIELDS}
    if node.address:
        own["address"]["source"] = "networks.provision.node_range, kept with the node"
    site_wide = {
        "hostname": {"value": f"{node.name}.{site.domain}", "source": "node and site domain"},
        "head": {"value": str(site.provision.head), "source": "site networks.provision.head"},
    }
    settings = {key: shown(found) for key, found in effective(site, node).items()}
    return {**document(node), "effective": {**own, **site_wide, **settings}}


def shown(found: Value) -> dict[str, Any]:
    return {"value": jsonable(found.value), "source": found.source}


def jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [jsonable(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def parse_assignments(assignments: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise InvalidInput(f"{quoted(assignment)} is not key=value; use a form such as profile=gpu")
        if key not in (*FIELDS, *SETTINGS):
            raise NotFound(f"there is no field {quoted(key)}; known are {', '.join((*FIELDS, *SETTINGS))}")
        if key in found:
            raise InvalidInput(f"{key} is given twice; keep one")
        found[key] = text
    return found


def changed(site: Site, node: Node, wanted: Mapping[str, str]) -> Node:
    """The node with these fields set; an empty text takes a value away. Pure."""
    # In the order of the fields, so that a position is judged in the rack it is going to be in.
    for key in sorted(wanted, key=(*FIELDS, *SETTINGS).index):
        text = wanted[key]
        fields.plain_text(text, field=key, limit=4000)
        node = with_setting(site, node, key, text) if key in SETTINGS else with_field(site, node, key, text)
    return node


def with_setting(site: Site, node: Node, key: str, text: str) -> Node:
    own = {name: value for name, value in node.settings.items() if name != key}
    if text:
        own[key] = jsonable(parse_setting(key, text))
        for problem in sitechecks.settings_problems((), Settings.model_validate({key: own[key]}), site):
            raise InvalidField(key, text, problem.expected)
    return replace(node, settings=own)


def with_field(site: Site, node: Node, key: str, text: str) -> Node:
    if not text and key in ("profile", "mac", "address"):
        raise InvalidField(key, text, "a node cannot be without it; give a value")
    match key:
        case "profile":
            return replace(node, profile=known_profile(site, text))
        case "rack":
            return replace(node, rack=fields.plain_label(text, field="rack") if text else None)
        case "position":
            return replace(node, position=enroll.rack_position(site, node.rack, text, "") if text else None)
        case "groups":
            return replace(node, groups=enroll.group_names(text))
        case "locked":
            if text not in ("true", "false"):
                raise InvalidField("locked", text, "use true or false")
            return replace(node, locked=text == "true")
        case "bmc":
            if not text:
                return replace(node, bmc=None)
            return replace(node, bmc=replace(node.bmc or BmcAccess(""), address=addresses.bmc_address(site, text)))
        case _:
            return with_boot_nic(site, node, key, text)


def with_boot_nic(site: Site, node: Node, key: str, text: str) -> Node:
    nic = node.boot_nic or Nic("")
    if key == "mac":
        nic = replace(nic, mac=fields.mac_address(text))
    else:
        nic = replace(nic, address=addresses.node_address(site, text))
    others = [other for other in node.nics if other is not node.boot_nic]
    return replace(node, nics=(nic, *others))


def edits(before: Sequence[Node], after: Sequence[Node]) -> list[Edit]:
    """What is different, field by field."""
    found: list[Edit] = []
    for old, new in zip(before, after, strict=True):
        was, becomes = flat(old), flat(new)
        for key in sorted({*was, *becomes}, key=(*FIELDS, *SETTINGS).index):
            if was.get(key) != becomes.get(key):
                found.append(Edit(old.name, key, was.get(key), becomes.get(key)))
    return found


def flat(node: Node) -> dict[str, Any]:
    own = {key: value for key, value in document(node).items() if key in FIELDS}
    return {**own, **jsonable(node.settings)}


def plan_set(context: Context, nodes: Sequence[Node], wanted: Mapping[str, str]) -> list[Edit]:
    if len(nodes) > 1 and (one := {"mac", "address", "bmc"} & {*wanted}):
        raise InvalidInput(f"{min(one)} belongs to one node, and {len(nodes)} were named; set them one by one")
    return edits(nodes, [changed(context.site, node, wanted) for node in nodes])


def set_fields(context: Context, names: Sequence[str], wanted: Mapping[str, str]) -> list[Edit]:
    """Change fields of nodes: all of them or, when one value is taken or wrong, none."""
    with context.inventory.change(context.actor, context.cause) as change:
        before = change.nodes(names)
        if gone := [node.name for node in before if node.state is State.RETIRED]:
            raise NotFound(f"{nodeset.fold(gone)} was retired in the meantime; nothing was changed")
        after = [changed(context.site, node, wanted) for node in before]
        made = edits(before, after)
        touched = {edit.node for edit in made}
        moved = [node for node in after if node.name in touched]
        if {"mac", "address", "bmc"} & {*wanted}:
            refuse_taken(moved, change.nodes())
        change.replace(moved)
        change.record_all(
            Event("set", f"{e.field}: {e.before} → {e.after}", change.actor, change.cause, e.node,
                  data={"field": e.field, "before": e.before, "after": e.after})
            for e in made
        )  # fmt: skip
    return made


def refuse_taken(moved: Sequence[Node], everyone: Sequence[Node]) -> None:
    names = {node.name for node in moved}
    taken = enroll.Taken.of(node for node in everyone if node.name not in names)
    for node in moved:
        for what, value, holders in enroll.claims(node, taken):
            if value in holders:
                raise Taken(f"{node.name}'s {what} cannot be '{value}'; {holders[value]} has it already")
        taken.add(node)


def retire(context: Context, names: Sequence[str]) -> list[str]:
    """Take nodes out of service: their MAC, address and BMC are free again, their history stays."""
    with context.inventory.change(context.actor, context.cause) as change:
        nodes = change.nodes(names)
        if locked := [node.name for node in nodes if node.locked]:
            raise InvalidInput(
                f"{nodeset.fold(locked)} locked; nothing was retired",
                hint="'headnode set NODE locked=false' unlocks",
            )
        change.record_all(
            Event("retire", "retired; its MAC, address and BMC are free again", change.actor, change.cause, node.name,
                  data={key: value for key, value in document(node).items() if key != "settings"})
            for node in nodes
        )  # fmt: skip
        change.replace(
            [
                replace(
                    node, state=lifecycle.move(node.state, "retire"), intent=Intent.DISK, nics=(), bmc=None, groups=(),
                    deadline=None,
                )
                for node in nodes
                if node.state is not State.RETIRED
            ]
        )  # fmt: skip
    return [node.name for node in nodes]
