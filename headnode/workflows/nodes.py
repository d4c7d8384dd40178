"""Describing nodes, changing their fields, and retiring them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Any

from headnode import fields, lifecycle, nodeset, sitechecks
from headnode.effective import SETTINGS, Value, effective, known_profile, parse_setting
from headnode.errors import InvalidField, InvalidInput, NotFound, Taken
from headnode.errors import shown as quoted
from headnode.model import BmcAccess, Event, Intent, Nic, Node, State
from headnode.site import Settings, Site
from headnode.workflows import addresses, enroll
from headnode.workflows.choosing import document, jsonable
from headnode.workflows.context import Context
from headnode.workflows.sheet import nic_columns

FIELDS = ("profile", "rack", "position", "groups", "mac", "address", "bmc", "bmc_mac", "locked")
# What only one machine can have.
UNIQUE = {"mac", "address", "bmc", "bmc_mac"}


@dataclass(frozen=True)
class Edit:
    node: str
    field: str
    before: Any
    after: Any


def hardware(context: Context, nodes: Sequence[Node]) -> list[dict[str, Any]]:
    """What the agents of these nodes have last reported; those that never did are left out, unless that is all."""
    found = [{"name": node.name, "hardware": facts} for node in nodes if (facts := context.inventory.hardware(node))]
    if nodes and not found:
        names = nodeset.fold(node.name for node in nodes)
        raise NotFound(f"{names}: no hardware was reported yet", hint=f"headnode inspect {names}")
    return found


def description(site: Site, node: Node) -> dict[str, Any]:
    """A node with every value in effect and who gave it."""
    own = {
        key: {"value": value, "source": "not set" if value in (None, []) else "node"}
        for key, value in ports(node).items()
    }
    if node.profile not in site.profiles:
        own["profile"]["source"] = "node; there is no such profile in site.yaml"
    for nic in node.nics:
        net = site.networks.get(nic.network)
        if nic.address and net and net.node_range and IPv4Address(nic.address) in net.node_range:
            column = "address" if nic is node.boot_nic else f"{nic.network}_address"
            own[column] = {
                "value": nic.address,
                "source": f"site networks.{nic.network}.node_range, kept with the node",
            }
    site_wide = {
        "hostname": {"value": f"{node.name}.{site.domain}", "source": "node and site domain"},
        "head": {"value": str(site.provision.head), "source": "site networks.provision.head"},
    }
    settings = {key: shown(found) for key, found in effective(site, node).items()}
    return {**document(node), "effective": {**own, **site_wide, **settings}}


def ports(node: Node) -> dict[str, Any]:
    """The node's own fields, and the MAC and address of its ports on other networks."""
    found = {key: value for key, value in document(node).items() if key in FIELDS}
    for nic in node.nics:
        if nic is not node.boot_nic:
            found[f"{nic.network}_mac"] = nic.mac
            found[f"{nic.network}_address"] = nic.address
    return found


def shown(found: Value) -> dict[str, Any]:
    return {"value": jsonable(found.value), "source": found.source}


def fields_of(site: Site) -> tuple[str, ...]:
    """Everything that can be set for a node: its fields, its ports on other networks, its settings."""
    return (*FIELDS, *nic_columns(site), *SETTINGS)


def parse_assignments(site: Site, assignments: Sequence[str]) -> dict[str, str]:
    known = fields_of(site)
    found: dict[str, str] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise InvalidInput(f"{quoted(assignment)} is not key=value; use a form such as profile=gpu")
        if key not in known:
            raise NotFound(f"there is no field {quoted(key)}; known are {', '.join(known)}")
        if key in found:
            raise InvalidInput(f"{key} is given twice; keep one")
        found[key] = text
    return found


def changed(site: Site, node: Node, wanted: Mapping[str, str]) -> Node:
    """The node with these fields set; an empty text takes a value away. Pure."""
    # In the order of the fields, so that a position is judged in the rack it is going to be in.
    for key in sorted(wanted, key=fields_of(site).index):
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
        case "bmc" | "bmc_mac":
            return replace(node, bmc=with_bmc(site, node, key, text))
        case "mac" | "address":
            return with_boot_nic(site, node, key, text)
        case _:
            return with_other_nic(node, nic_columns(site)[key], key, text)


def with_bmc(site: Site, node: Node, key: str, text: str) -> BmcAccess | None:
    if key == "bmc":
        return replace(node.bmc or BmcAccess(""), address=addresses.bmc_address(site, text)) if text else None
    if node.bmc is None:
        raise InvalidField("bmc_mac", text, "the node has no BMC; set its address too, with bmc=")
    return replace(node.bmc, mac=fields.mac_address(text, field=key) if text else None)


def with_boot_nic(site: Site, node: Node, key: str, text: str) -> Node:
    nic = node.boot_nic or Nic("")
    if key == "mac":
        nic = replace(nic, mac=fields.mac_address(text))
    else:
        nic = replace(nic, address=addresses.node_address(site, text))
    others = [other for other in node.nics if other is not node.boot_nic]
    return replace(node, nics=(nic, *others))


def with_other_nic(node: Node, network: str, key: str, text: str) -> Node:
    """Its port on another network; a new port is given an address when the change is made."""
    present = next((nic for nic in node.nics if nic.network == network), Nic("", network))
    others = [nic for nic in node.nics if nic.network != network]
    port = [replace(present, mac=fields.mac_address(text, field=key))] if text else []
    return replace(node, nics=(*others, *port))


def edits(before: Sequence[Node], after: Sequence[Node]) -> list[Edit]:
    """What is different, field by field."""
    found: list[Edit] = []
    for old, new in zip(before, after, strict=True):
        was, becomes = flat(old), flat(new)
        # Fields first, then ports, then settings, as both were made.
        for key in dict.fromkeys((*was, *becomes)):
            if was.get(key) != becomes.get(key):
                found.append(Edit(old.name, key, was.get(key), becomes.get(key)))
    return found


def flat(node: Node) -> dict[str, Any]:
    settings = {key: node.settings[key] for key in SETTINGS if key in node.settings}
    return {**ports(node), **jsonable(settings)}


def set_fields(
    context: Context, names: Sequence[str], wanted: Mapping[str, str], *, rehearsal: bool = False
) -> list[Edit]:
    """Change fields of nodes: all of them or, when one value is taken or wrong, none."""
    if len(names) > 1 and (one := unique_fields(context.site) & {*wanted}):
        raise InvalidInput(f"{min(one)} belongs to one node, and {len(names)} were named; set them one by one")
    with context.inventory.change(context.actor, context.cause, rehearsal=rehearsal) as change:
        before = change.nodes(names)
        if gone := [node.name for node in before if node.state is State.RETIRED]:
            raise NotFound(f"{nodeset.fold(gone)} was retired in the meantime; nothing was changed")
        after = [changed(context.site, node, wanted) for node in before]
        unique = unique_fields(context.site) & {*wanted}
        if unique:
            after = with_addresses(context.site, after, change.nodes())
        made = edits(before, after)
        touched = {edit.node for edit in made}
        moved = [node for node in after if node.name in touched]
        if unique:
            refuse_taken(moved, change.nodes())
        change.replace(moved)
        change.record_all(
            Event("set", f"{e.field}: {said(e.before)} → {said(e.after)}", change.actor, change.cause, e.node,
                  data={"field": e.field, "before": e.before, "after": e.after})
            for e in made
        )  # fmt: skip
    return made


def unique_fields(site: Site) -> set[str]:
    return UNIQUE | {*nic_columns(site)}


def with_addresses(site: Site, changed: Sequence[Node], everyone: Sequence[Node]) -> list[Node]:
    taken = enroll.Taken.of(everyone)
    pools = {name: addresses.Pool(net, taken.addresses) for name, net in site.networks.items()}
    return [enroll.with_addresses(node, pools, node.name) for node in changed]


def said(value: Any) -> str:
    """A value in the words of the history."""
    if isinstance(value, bool):
        return str(value).lower()
    words = " ".join(str(item) for item in value) if isinstance(value, list) else value
    return "none" if words in (None, "") else str(words)


def refuse_taken(moved: Sequence[Node], everyone: Sequence[Node]) -> None:
    names = {node.name for node in moved}
    taken = enroll.Taken.of(node for node in everyone if node.name not in names)
    for node in moved:
        for what, value, holders in enroll.claims(node, taken):
            if value in holders:
                raise Taken(f"{node.name}'s {what} cannot be '{value}'; {holders[value]} has it already")
        taken.add(node)


def retire(context: Context, names: Sequence[str], *, rehearsal: bool = False) -> list[str]:
    """Take nodes out of service: their MAC, address and BMC are free again, their milestones stay."""
    with context.inventory.change(context.actor, context.cause, rehearsal=rehearsal) as change:
        nodes = change.nodes(names)
        if locked := [node.name for node in nodes if node.locked]:
            raise InvalidInput(
                f"{nodeset.fold(locked)} locked; nothing was retired",
                hint="'headnode set NODE locked=false' unlocks",
            )
        change.forget_disks(nodes)
        for node in nodes:
            # What was asked of this machine, and allowed for its disks, is nothing to another one of its name.
            change.close_deployments(node, "retired", "the node was retired")
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
