"""Power, boot device, sensors, event log and passwords of nodes through their BMCs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headnode import effective, machine
from headnode.bmclink import Answer
from headnode.errors import InvalidInput
from headnode.model import Event, Node, Severity
from headnode.nodeset import fold
from headnode.site import Site
from headnode.workflows.asking import OnAnswer, ask, quietly
from headnode.workflows.context import Context
from ipmi.stagger import Starter, plan


def change(
    context: Context, nodes: Sequence[Node], request: Mapping[str, Any], on_answer: OnAnswer = quietly
) -> list[Answer]:
    """Ask for something that changes nodes: refused for locked ones and for the head node, and written down."""
    refuse_untouchable(context.site, nodes)
    answers = ask(context, nodes, request, on_answer)
    words = " ".join(str(request[key]) for key in ("verb", "action", "device") if key in request)
    with context.inventory.change(context.actor, context.cause) as writing:
        writing.record_all(
            Event(
                kind=f"bmc.{request['verb']}",
                message=f"{words}: {answer.error or answer.status}",
                actor=context.actor,
                cause=context.cause,
                node=answer.name,
                severity=Severity.INFO if answer.ok else Severity.WARNING,
                data={"status": answer.status, "ok": answer.ok},
            )
            for answer in answers
        )
    return answers


def switch(context: Context, nodes: Sequence[Node], action: str, *, fanout: int | None = None,
           on_answer: OnAnswer = quietly) -> list[Answer]:  # fmt: skip
    """`on`, `off`, `cycle`, `reset` or `soft`; what starts machines keeps to the racks' budgets."""
    refuse_untouchable(context.site, nodes)
    request: dict[str, Any] = {"verb": "power", "action": action, "fanout": fanout}
    if action in ("on", "cycle"):
        request["starts"] = starts(context, nodes, action, fanout)
    return change(context, nodes, request, on_answer)


def starts(context: Context, nodes: Sequence[Node], action: str, fanout: int | None = None) -> dict[str, float]:
    """When each node may start, in seconds from now; what runs in its rack already counts, and needs no wave."""
    site = context.site
    racks = {node.rack for node in nodes if budget(site, node) is not None}
    if not racks:
        return {}
    neighbours = [node for node in context.inventory.nodes() if node.rack in racks]
    answers = ask(context, neighbours, {"verb": "draw", "fanout": fanout})
    running = {answer.name: answer.value["watts"] for answer in answers if answer.ok and answer.value["on"]}
    starting = {node.name for node in nodes if action != "on" or node.name not in running}
    return planned_starts(
        site,
        [node for node in nodes if node.name in starting],
        drawn(site, [node for node in neighbours if node.name not in starting], running),
    )


def drawn(site: Site, nodes: Iterable[Node], running: Mapping[str, float | None]) -> dict[str, float]:
    """Pure: what each rack draws, by the nodes' sensors; one that has none counts as if it started."""
    found: dict[str, float] = {}
    for node in nodes:
        if node.rack and node.name in running:
            measured = running[node.name]
            took = float(effective.value(site, node, "start_watts")) if measured is None else measured
            found[node.rack] = found.get(node.rack, 0.0) + took
    return found


def planned_starts(site: Site, nodes: Iterable[Node], drawn: Mapping[str, float] | None = None) -> dict[str, float]:
    """Pure: the waves that keep every rack below its budget."""
    starters = [Starter(node.name, float(effective.value(site, node, "start_watts")), node.rack) for node in nodes]
    budgets = {name: float(rack.budget_watts) for name, rack in site.racks.items() if rack.budget_watts is not None}
    waves = plan(starters, budgets, drawn, surge_seconds=float(site.bmc.surge_seconds))
    return {start.name: start.at for start in waves if start.at > 0}


def budget(site: Site, node: Node) -> int | None:
    rack = site.racks.get(node.rack or "")
    return rack.budget_watts if rack else None


def boot_from_network(context: Context, nodes: Sequence[Node]) -> dict[str, str]:
    """Start these nodes from the network, once; returns what went wrong, as a sentence for each such node."""
    if not nodes:
        return {}
    refuse_untouchable(context.site, nodes)
    request = {"verb": "netboot", "starts": starts(context, nodes, "cycle")}
    return {answer.name: answer.error for answer in change(context, nodes, request) if not answer.ok}


def refuse_untouchable(site: Site, nodes: Sequence[Node]) -> None:
    """Locked nodes and the head node itself: nothing at all is done when one of them is among the nodes."""
    if locked := [node.name for node in nodes if node.locked]:
        verb = "is" if len(locked) == 1 else "are"
        raise InvalidInput(
            f"{fold(locked)} {verb} locked; nothing was changed", hint=f"headnode set {fold(locked)} locked=false"
        )
    own = own_hardware()
    for node in nodes:
        if is_head(site, node, own):
            raise InvalidInput(f"{node.name} is the head node itself; nothing was changed")


def is_head(site: Site, node: Node, own_macs: frozenset[str]) -> bool:
    """Told by the site (bmc.head), or by a network port that this machine has."""
    if node.bmc is not None and site.bmc.head is not None and node.bmc.address == str(site.bmc.head):
        return True
    return any(nic.mac in own_macs for nic in node.nics)


def own_hardware() -> frozenset[str]:
    return frozenset(interface.mac for interface in machine.interfaces() if interface.mac)
