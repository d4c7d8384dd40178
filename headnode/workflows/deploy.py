"""Inspect, deploy and rescue: the work an agent does on a node, from the admin's word to the node's own report.

Every change here is a transaction of its own and can be repeated: an agent that was not answered asks again, a node
that lost power starts again, and a head node that was restarted goes on from what the database says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headnode import lifecycle
from headnode.errors import InvalidInput, NotFound
from headnode.fields import measurement
from headnode.inventory import Change
from headnode.model import Deployment, Event, Intent, Node, Severity, State
from headnode.nodeset import fold
from headnode.workflows import publishing, why
from headnode.workflows.context import Context

TRIGGERS = {Intent.INSPECT: "inspect", Intent.DEPLOY: "deploy"}
# More boots than any deployment needs, and few enough that a node in a loop is noticed.
MOST_TOKENS = 50
# A node that begins this often and never finishes restarts by itself: a fault of its hardware, not of its luck.
MOST_CLAIMS = 5


@dataclass(frozen=True)
class Claimed:
    session: str
    deployment: Deployment
    node: Node


def refuse_unsuitable(nodes: Sequence[Node], intent: Intent) -> None:
    """Everything that is wrong with this wish, before anything is changed."""
    if locked := [node.name for node in nodes if node.locked]:
        raise InvalidInput(
            f"{fold(locked)} locked; nothing was changed", hint="'headnode set NODE locked=false' unlocks"
        )
    if no_address := [node.name for node in nodes if node.address is None]:
        raise InvalidInput(f"{fold(no_address)} cannot boot over the network: no MAC and address are known")
    trigger = TRIGGERS.get(intent)
    if intent is Intent.RESCUE and (busy := [node.name for node in nodes if node.state in lifecycle.WORKING]):
        raise InvalidInput(f"{fold(busy)} at work; nothing was changed", hint=f"headnode abort {fold(busy)}")
    for node in nodes:
        if trigger is not None and trigger not in lifecycle.triggers(node.state):
            possible = ", ".join(lifecycle.triggers(node.state))
            raise InvalidInput(f"{node.name} is {node.state} and cannot {trigger}; possible now: {possible}")


def begin(
    context: Context, names: Sequence[str], intent: Intent, *, image: str | None = None, consent: Sequence[str] = ()
) -> list[Deployment]:
    """Ask for the work, for all nodes or none, and publish what each is told at its next network boot."""
    with context.inventory.change(context.actor, context.cause) as change:
        nodes = change.nodes(names)
        refuse_unsuitable(nodes, intent)
        started = [begin_one(change, node, intent, image, consent) for node in nodes]
    publishing.publish_changes(context)
    return started


def begin_one(change: Change, node: Node, intent: Intent, image: str | None, consent: Sequence[str]) -> Deployment:
    trigger = TRIGGERS.get(intent)
    state = lifecycle.move(node.state, trigger) if trigger else node.state
    until = lifecycle.deadline(state, change.now) or change.now + lifecycle.WORKING[State.DEPLOYING]
    change.replace(
        [
            replace(
                node,
                state=state,
                intent=intent,
                # Looking inside changes nothing of what it is, or why.
                phase=None if trigger else node.phase,
                reason=None if trigger else node.reason,
                deadline=until if trigger else None,
            )
        ]
    )
    change.record(intent.value, f"asked for: {intent}" + (f" of {image}" if image else ""), node=node.name)
    return change.start_deployment(node, intent, until, image, consent)


# What the agent asks, in the order it asks.


def token_for(context: Context, address: str) -> str | None:
    """A one-time token for the node at this address, while work waits for it."""
    found = context.inventory.running_deployment(address)
    if found is None:
        return None
    deployment, node = found
    with context.inventory.change(node.name, "network boot") as change:
        if change.tokens_issued(deployment) >= MOST_TOKENS:
            return None
        return change.issue_token(deployment, address)


def claim(context: Context, token: str, address: str) -> Claimed | None:
    with context.inventory.change("agent", "network boot") as change:
        claimed = change.claim_token(token, address)
        if claimed is None:
            return None
    _, session = claimed
    found = context.inventory.running_deployment(address, session)
    if found is None:
        return None
    deployment, node = found
    with context.inventory.change("agent", named(deployment)) as change:
        claims = change.tokens_used(deployment)
        change.record("agent.claimed", f"the agent runs and takes up: {deployment.intent}", node=node.name)
    if claims > MOST_CLAIMS and deployment.intent is not Intent.RESCUE:
        reason = f"it restarted by itself: the ramdisk began {claims} times and never finished"
        fail(context, node, node.state.value, reason, actor="head node", work=deployment)
        return None
    return Claimed(session, deployment, node)


def named(deployment: Deployment) -> str:
    """As the cause of what its agent says, so that two deployments of one moment are told apart (evidence.py)."""
    return f"{deployment.intent} {deployment.id}"


def report_hardware(context: Context, node: Node, facts: Mapping[str, Any]) -> None:
    facts = well_formed(facts)
    counted = f"{len(facts.get('disks', ()))} disks, {len(facts.get('gpus', ()))} GPUs"
    with context.inventory.change("agent", "inspection") as change:
        change.remember_hardware(node, facts)
        change.record("agent.inventory", f"reported its hardware: {counted}", node=node.name)


def well_formed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A node wrote this: what should be a list of things is one from here on, whatever it sent."""
    lists = {key: facts[key] for key in ("disks", "gpus", "nvswitches", "nics", "dimms") if key in facts}
    kept = {
        key: [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        for key, value in lists.items()
    }
    return {**facts, **kept}


def progress(
    context: Context, deployment: Deployment, happened: Sequence[Mapping[str, Any]], now: object = None
) -> None:
    """Steps become events; percentages only move the bar. `now` is what the node's clock said when it sent them."""
    last = happened[-1] if happened else {}
    cause = named(deployment)
    with context.inventory.change("agent", cause) as change:
        change.progress(
            deployment.id,
            text_or_none(last.get("step")),
            percent_or_none(last.get("percent")),
            bytes_or_none(last.get("bytes")),
            bytes_or_none(last.get("total")),
        )
        change.record_all(
            Event(
                kind=f"agent.{said.get('kind') or 'step'}"[:64],
                message=str(said.get("message", ""))[:500],
                actor="agent",
                cause=cause,
                node=deployment.node,
                data={"step": text_or_none(said.get("step"))},
                at=on_our_clock(said.get("at"), now, change.now, deployment.started),
            )
            for said in happened
            if said.get("kind") != "progress"
        )


def on_our_clock(theirs: object, theirs_now: object, ours_now: datetime, earliest: datetime) -> datetime:
    """When something happened, by the head node's clock: a node's own may be years off, but it counts seconds well.

    Nothing is before its deployment or after now, whatever a node says.
    """
    then, now = measurement(theirs), measurement(theirs_now)
    if then is None or now is None:
        return ours_now
    ago = min(max(now - then, 0.0), (ours_now - earliest).total_seconds())
    return ours_now - timedelta(seconds=max(ago, 0.0))


def done(context: Context, deployment: Deployment, node: Node) -> None:
    """The agent has finished. Booting from disk is live before this returns, so no node reinstalls in a loop."""
    trigger = {Intent.DEPLOY: "deployed", Intent.INSPECT: "inspected"}.get(deployment.intent)
    with context.inventory.change("agent", named(deployment)) as change:
        # Finished in the same transaction: from here on no boot can claim it again, and nothing is erased twice.
        if change.finish_deployment(deployment.id, "done"):
            current = change.nodes([node.name])[0]
            state = current.state
            if trigger and trigger in lifecycle.triggers(state):
                state = lifecycle.move(state, trigger)
            deadline = lifecycle.deadline(state, change.now)
            change.replace([replace(current, state=state, intent=Intent.DISK, deadline=deadline)])
            change.record(
                trigger or "done", f"{deployment.intent} finished; it boots from its disk from now on", node=node.name
            )
    # Also when it was said before: whoever died between the two left this undone.
    publishing.publish_changes(context)


def failed(context: Context, deployment: Deployment, node: Node, step: str, reason: str) -> None:
    """The agent gave up; the node's next boot is harmless, and the reason is the node's."""
    fail(context, node, f"{deployment.intent}: {step}"[:32], reason, actor="agent", work=deployment)


def fail(
    context: Context,
    node: Node,
    phase: str,
    reason: str,
    *,
    actor: str,
    unchanged: bool = False,
    work: Deployment | None = None,
) -> None:
    """With `unchanged`, only if the node still is in the same state with the same deadline as it was seen.

    With `work`, only if that was still under way: what an agent could not do says nothing about what was asked since.
    """
    with context.inventory.change(actor, f"{phase}") as change:
        current = change.nodes([node.name])[0]
        if unchanged and (current.state, current.deadline) != (node.state, node.deadline):
            return
        if work is not None and not change.finish_deployment(work.id, "failed", reason):
            return
        change.close_deployments(current, "failed", reason)
        after = replace(current, intent=Intent.DISK, deadline=None)
        if current.state in lifecycle.WORKING:
            # A rescue that did not work says nothing of the node: one that is up stays so, without a reason not to be.
            after = replace(after, state=State.FAILED, phase=phase, reason=reason)
        change.replace([after])
        data = {"phase": phase, "reason": reason}
        change.record("failed", f"{phase}: {reason}", node=node.name, severity=Severity.ERROR, data=data)
    publishing.publish_changes(context)


def verified(context: Context, node: Node, checks: Sequence[Mapping[str, Any]]) -> State:
    """The installed system reports how it is; only a node that passes everything is up."""
    wrong = [f"{check.get('name')}: {check.get('message')}"[:200] for check in checks if check.get("ok") is not True]
    wrong += clock_problems(checks, context.site.time.max_offset_ms) if checks else ["the report holds no checks"]
    with context.inventory.change(node.name, "first boot") as change:
        current = change.nodes([node.name])[0]
        late = current.state is State.FAILED and current.phase == State.VERIFYING.value
        if current.state is not State.VERIFYING and not late:
            if wrong and current.state is State.UP:
                # It is not taken out of service behind anybody's back, but it is said.
                message = f"it reports trouble: {'; '.join(wrong)}"
                data = {"checks": list(checks)[:100]}
                change.record("verify", message, node=node.name, severity=Severity.ERROR, data=data)
            return current.state
        state = State.FAILED if wrong else State.UP
        phase, reason = (State.VERIFYING.value, "; ".join(wrong)) if wrong else (None, None)
        change.replace([replace(current, state=state, phase=phase, reason=reason, deadline=None)])
        severity = Severity.ERROR if wrong else Severity.INFO
        message = f"verification failed: {reason}" if wrong else f"verified: {len(checks)} checks passed; it is up"
        # Reports stay for ever; one that starts every minute with the same trouble has said so once.
        if not late or reason != current.reason:
            change.record("verify", message, node=node.name, severity=severity, data={"checks": list(checks)[:100]})
    # It is not asked any more.
    publishing.publish_changes(context)
    return state


def clock_problems(checks: Sequence[Mapping[str, Any]], bound: int) -> list[str]:
    """The bound is the head node's to apply: a report that gives no number has not shown that its clock is right."""
    clock = next((check for check in checks if check.get("name") == "clock"), None)
    if clock is None:
        return ["clock: the report says nothing of it"]
    offset = measurement(clock.get("offset_ms"))
    if clock.get("ok") is not True:
        return []  # named already, in the node's own words
    if offset is None:
        return ["clock: the report does not say how far it is off"]
    return [f"clock: {offset:.3f} ms off; at most {bound} ms is allowed"] if abs(offset) > bound else []


def abort(context: Context, names: Sequence[str]) -> list[str]:
    """Stop waiting: the work is over, and the node's next boot is from disk."""
    aborted: list[str] = []
    for node in context.inventory.nodes(names):
        if node.state in lifecycle.WORKING or node.intent is not Intent.DISK:
            fail(context, node, node.state.value, f"aborted by {context.actor}", actor=context.actor)
            aborted.append(node.name)
    if not aborted:
        raise NotFound("nothing is under way on these nodes")
    return aborted


def expire_overdue(context: Context) -> None:
    """A working state that has passed its deadline is a failure with a reason, never silence."""
    now = datetime.now(UTC)
    for node in context.inventory.overdue():
        if reason := lifecycle.overdue(node.state, node.deadline, now):
            reason = f"{reason}: {why.in_words(context, node)}"
            fail(context, node, node.state.value, reason, actor="reconcile", unchanged=True)


def text_or_none(value: object) -> str | None:
    return str(value)[:200] if isinstance(value, str) and value else None


def percent_or_none(value: object) -> int | None:
    found = measurement(value)
    return None if found is None else max(0, min(100, int(found)))


def bytes_or_none(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None
