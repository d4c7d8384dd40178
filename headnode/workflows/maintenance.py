"""Maintenance: taking nodes out of service by hand, and back.

Nothing on the machine is touched. A node in maintenance boots from its disk, nothing is started on it, and nobody is
told of what it does. What is installed has to show how it is before it is up again: hands were in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headnode import lifecycle
from headnode.errors import InvalidField, InvalidInput
from headnode.inventory import Change
from headnode.model import Intent, Node, State
from headnode.nodeset import fold
from headnode.workflows import publishing
from headnode.workflows.context import Context

LONGEST_REASON = 200


@dataclass(frozen=True)
class Move:
    """What would happen to one node; nothing when `after` is as before."""

    node: Node
    after: Node
    text: str


def plan_maintain(nodes: Sequence[Node], reason: str = "") -> list[Move]:
    """Pure."""
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        raise InvalidField("--reason", reason, f"use one line of at most {LONGEST_REASON} characters")
    # Said once is enough: whoever takes a whole rack out does not want to forget why some of it was out before.
    kept = (node.reason if node.state is State.MAINTENANCE else None for node in nodes)
    return [maintained(node, reason or before) for node, before in zip(nodes, kept, strict=True)]


def maintained(node: Node, reason: str | None) -> Move:
    state = lifecycle.move(node.state, "maintain")
    after = replace(node, state=state, intent=Intent.DISK, phase=None, reason=reason, deadline=None)
    if after == node:
        return Move(node, after, "nothing: it is in maintenance already")
    if node.state is State.MAINTENANCE:
        return Move(node, after, "gets another reason" if after.reason != node.reason else f"{node.intent} ends here")
    under_way = node.state if node.state in lifecycle.WORKING else node.intent
    before = "" if under_way is Intent.DISK else f"{under_way} ends here, and it "
    return Move(node, after, f"{before}goes into maintenance")


def maintain(context: Context, names: Sequence[str], reason: str = "") -> list[str]:
    """All of them or none; the names of those that were not in maintenance for this reason before."""
    with context.inventory.change(context.actor, context.cause) as change:
        moves = [move for move in plan_maintain(change.nodes(names), reason) if move.after != move.node]
        for move in moves:
            # Its agent has nothing more to say: what it was asked to do is over.
            change.close_deployments(move.node, "maintenance", "the node was taken into maintenance")
            said = f"taken into maintenance{f': {reason}' if reason else ''}"
            change.record("maintain", said, node=move.node.name, data={"from": move.node.state.value})
        change.replace([move.after for move in moves])
    publishing.publish_changes(context)
    return [move.node.name for move in moves]


def plan_resume(context: Context, nodes: Sequence[Node]) -> list[Move]:
    """What is installed is verified; where nothing is, something may be deployed."""
    if other := [node.name for node in nodes if node.state is not State.MAINTENANCE]:
        states = ", ".join(sorted({node.state.value for node in nodes if node.name in other}))
        raise InvalidInput(f"{fold(other)} not in maintenance but {states}; nothing was changed")
    installed = context.inventory.installed(nodes)
    return [resumed(node, installed=node.name in installed) for node in nodes]


def resumed(node: Node, *, installed: bool) -> Move:
    state = lifecycle.move(node.state, "resumed" if installed else "resume")
    text = "is verified, and up when it passes" if installed else "is ready: nothing is installed on it"
    # A rescue ends with it: what is to be shown is what starts from the disk.
    return Move(node, replace(node, state=state, intent=Intent.DISK, phase=None, reason=None), text)


def resume(context: Context, names: Sequence[str]) -> list[Node]:
    """All of them or none, as they are now."""
    with context.inventory.change(context.actor, context.cause) as change:
        moves = [with_deadline(move, change) for move in plan_resume(context, change.nodes(names))]
        change.replace([move.after for move in moves])
        for move in moves:
            change.close_deployments(move.node, "resumed", "the node was taken back into service")
            change.record("resume", "taken back into service", node=move.node.name)
            if move.after.state is State.VERIFYING:
                change.record("verify.asked", "asked to show how it is", node=move.node.name)
    publishing.publish_changes(context)
    return [move.after for move in moves]


def with_deadline(move: Move, change: Change) -> Move:
    return replace(move, after=replace(move.after, deadline=lifecycle.deadline(move.after.state, change.now)))
