"""A node's life as a table: what may follow what, why, and how long a working state may take.

Nothing here has side effects: `move` says where a node goes, the caller records it. docs/lifecycle.md is made
from this table by `picture()`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headnode.errors import InvalidInput
from headnode.model import State


@dataclass(frozen=True)
class Transition:
    source: State
    trigger: str
    target: State
    meaning: str


def _t(source: State, trigger: str, target: State, meaning: str) -> Transition:
    return Transition(source, trigger, target, meaning)


S = State
TRANSITIONS: tuple[Transition, ...] = (
    _t(S.SEEN, "enroll", S.ENROLLED, "the admin gave it a name and a profile"),
    _t(S.ENROLLED, "inspect", S.INSPECTING, "its hardware is to be read"),
    _t(S.ENROLLED, "deploy", S.DEPLOYING, "deployed straight away; the agent inspects it first"),
    _t(S.INSPECTING, "inspected", S.READY, "the agent reported the hardware"),
    _t(S.READY, "inspect", S.INSPECTING, "its hardware is to be read again"),
    _t(S.READY, "deploy", S.DEPLOYING, "the admin asked for it"),
    _t(S.DEPLOYING, "deployed", S.VERIFYING, "the agent finished, and booting from disk is published"),
    _t(S.VERIFYING, "verified", S.UP, "it has shown that it is what was asked for"),
    _t(S.UP, "deploy", S.DEPLOYING, "the admin asked for a reinstall"),
    _t(S.UP, "verify", S.VERIFYING, "the admin asked for a new verification"),
    _t(S.FAILED, "inspect", S.INSPECTING, "tried again"),
    _t(S.FAILED, "deploy", S.DEPLOYING, "tried again"),
    _t(S.FAILED, "verify", S.VERIFYING, "tried again"),
    _t(S.MAINTENANCE, "resume", S.READY, "taken back into service; nothing is installed on it"),
    _t(S.MAINTENANCE, "resumed", S.VERIFYING, "taken back into service; what is installed has to show how it is"),
    _t(S.RETIRED, "enroll", S.ENROLLED, "the name is used again"),
)

WORKING = {
    S.INSPECTING: timedelta(minutes=20),
    S.DEPLOYING: timedelta(minutes=60),
    S.VERIFYING: timedelta(minutes=20),
}
"""Working states and how long each may take; passing the deadline is a failure with a reason, never silence."""

BY_HAND = {"maintain": State.MAINTENANCE, "retire": State.RETIRED}
"""What an admin may do from any state but `retired`; never a side effect of something else."""


def move(state: State, trigger: str) -> State:
    """Where the trigger takes a node; a trigger that makes no sense in this state is refused."""
    if trigger in BY_HAND and state is not State.RETIRED:
        return BY_HAND[trigger]
    if trigger == "fail" and state in WORKING:
        return State.FAILED
    for transition in TRANSITIONS:
        if transition.source is state and transition.trigger == trigger:
            return transition.target
    possible = ", ".join(triggers(state)) or "nothing"
    raise InvalidInput(f"a node that is {state} cannot {trigger}; possible now: {possible}")


def triggers(state: State) -> list[str]:
    found = [transition.trigger for transition in TRANSITIONS if transition.source is state]
    if state in WORKING:
        found.append("fail")
    if state is not State.RETIRED:
        found.extend(BY_HAND)
    return found


def deadline(state: State, now: datetime) -> datetime | None:
    allowed = WORKING.get(state)
    return now + allowed if allowed else None


def overdue(state: State, deadline: datetime | None, now: datetime) -> str | None:
    """The reason for a failure when a working state has passed its deadline."""
    if state not in WORKING or deadline is None or now < deadline:
        return None
    return f"no end of {state} within {WORKING[state].total_seconds() / 60:.0f} minutes"


def picture() -> str:
    """The table as a Mermaid diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.SEEN}: hardware asks for an address"]
    lines.append(f"    [*] --> {State.ENROLLED}: enroll")
    lines += [f"    {t.source} --> {t.target}: {t.trigger}" for t in TRANSITIONS]
    lines += [
        f"    {state} --> {State.FAILED}: fail, or {limit.total_seconds() / 60:.0f} min passed"
        for state, limit in WORKING.items()
    ]
    lines += [f"    any --> {target}: {trigger} (by hand)" for trigger, target in BY_HAND.items()]
    return "\n".join(lines)


def table() -> str:
    """The table as Markdown, with the meaning of every transition."""
    rows = [f"| {t.source} | {t.trigger} | {t.target} | {t.meaning} |" for t in TRANSITIONS]
    return "\n".join(["| from | trigger | to | because |", "|---|---|---|---|", *rows])
