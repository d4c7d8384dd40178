"""Choosing nodes by name, set or group, and how every format shows one. Light: looking must not wait for the rest."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from headnode import nodeset
from headnode.errors import NotFound
from headnode.errors import shown as quoted
from headnode.model import Node
from headnode.workflows.context import Context


def select(context: Context, text: str | None, *, retired: bool = False) -> list[Node]:
    """The nodes of a node set, in natural order; a name that is not enrolled is refused."""
    if text is None:
        found = context.inventory.nodes()
        return sorted(found, key=lambda node: nodeset.natural_key(node.name))
    groups: dict[str, list[str]] = {}
    if names_groups(text):
        groups = {"all": context.inventory.names(), **context.inventory.groups()}
    names = nodeset.expand(text, groups=groups)
    return all_found(text, names, context.inventory.nodes(names, retired=retired))


def pick(known: Mapping[str, Node], text: str) -> list[Node]:
    """As `select`, from nodes that are at hand already. Pure."""
    groups: dict[str, list[str]] = {}
    if names_groups(text):
        groups["all"] = list(known)
        for node in known.values():
            for group in node.groups:
                groups.setdefault(group, []).append(node.name)
    names = nodeset.expand(text, groups=groups)
    return all_found(text, names, [known[name] for name in names if name in known])


def names_groups(text: str) -> bool:
    return bool(set("@*?") & set(text))


def all_found(text: str, names: Sequence[str], found: Sequence[Node]) -> list[Node]:
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


def jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [jsonable(item) for item in value]
    return value.value if isinstance(value, Enum) else value
