"""Asking running nodes to show how they are, and comparing what they say.

A node looks every few seconds for a small static file with its address (templates/nginx); while it is verifying, the
file is there. So nothing listens on nodes, and the head node needs no key to them (docs/decisions/0027).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from headnode import lifecycle
from headnode.errors import InvalidInput
from headnode.model import Node, State
from headnode.nodeset import fold
from headnode.why.outliers import Outlier, outliers
from headnode.workflows import publishing
from headnode.workflows.context import Context
from headnode.workflows.expectations import BURN_IN

LONGEST_BURN_IN = timedelta(days=3)
# Programs that prove hardware take longer than they are told to.
SLACK = 4
Checks = Sequence[Mapping[str, Any]]


def ask(context: Context, nodes: Sequence[Node], burn_in: timedelta | None = None) -> None:
    """All of them or none; each has until its deadline to answer."""
    if burn_in is not None and not timedelta(seconds=1) <= burn_in <= LONGEST_BURN_IN:
        raise InvalidInput(f"--burn-in is {burn_in}; use up to 72h, such as 30m")
    with context.inventory.change(context.actor, context.cause) as change:
        current = change.nodes([node.name for node in nodes])
        if wrong := [node.name for node in current if not may_verify(node)]:
            states = sorted({node.state.value for node in current if node.name in wrong})
            raise InvalidInput(
                f"{fold(wrong)} cannot be verified: {', '.join(states)}; only what is installed can show how it is",
                hint=f"headnode {'resume' if states == [State.MAINTENANCE] else 'why'} {fold(wrong)}",
            )
        for node in current:
            state = State.VERIFYING if node.state is State.VERIFYING else lifecycle.move(node.state, "verify")
            until = (lifecycle.deadline(state, change.now) or change.now) + SLACK * (burn_in or timedelta())
            phase = f"{BURN_IN}{burn_in.total_seconds():.0f}" if burn_in else None
            change.replace([replace(node, state=state, phase=phase, reason=None, deadline=until)])
            change.record("verify.asked", "asked to show how it is" + (f", {phase} s" if phase else ""), node=node.name)
    publishing.publish_changes(context)


def may_verify(node: Node) -> bool:
    """Up, verifying, or failed at exactly that: a node that failed to install has nothing to show."""
    failed_there = node.state is State.FAILED and node.phase == State.VERIFYING.value
    return node.state in (State.UP, State.VERIFYING) or failed_there


def wait(context: Context, names: Sequence[str], tick: Callable[[list[Node]], None], pause: float = 1.0) -> list[Node]:
    """Until none of them is verifying any more; their deadlines see to it that this ends."""
    while True:
        nodes = context.inventory.nodes(names)
        tick(nodes)
        if all(node.state is not State.VERIFYING for node in nodes):
            return nodes
        time.sleep(pause)


def reports(context: Context, nodes: Sequence[Node]) -> dict[str, Checks]:
    """Node → the checks of the last thing it said of itself."""
    newest = context.inventory.history.newest("verify", [node.name for node in nodes])
    found: dict[str, Checks] = {}
    for node in nodes:
        checks = newest[node.name].data.get("checks") if node.name in newest else None
        found[node.name] = checks if isinstance(checks, list) else []
    return found


def compare(nodes: Sequence[Node], said: Mapping[str, Checks]) -> list[Outlier]:
    """Within each profile."""
    profiles = sorted({node.profile for node in nodes})
    return [
        odd
        for profile in profiles
        for odd in outliers({node.name: said[node.name] for node in nodes if node.profile == profile})
    ]


def document(nodes: Sequence[Node], said: Mapping[str, Checks]) -> dict[str, Any]:
    """What nodes said of themselves last, and who differs from the others."""
    return {
        "nodes": [
            {"name": n.name, "state": n.state.value, "reason": n.reason, "checks": list(said[n.name])} for n in nodes
        ],
        "outliers": [str(item) for item in compare(nodes, said)],
    }
