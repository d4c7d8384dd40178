"""A node's life: what may follow what, and that nothing waits for ever."""

from datetime import UTC, datetime, timedelta

import pytest

from headnode import lifecycle
from headnode.errors import InvalidInput
from headnode.lifecycle import TRANSITIONS, WORKING, move
from headnode.model import State

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_usual_life_is_possible() -> None:
    state = State.SEEN
    for trigger in ("enroll", "inspect", "inspected", "deploy", "deployed", "verified"):
        state = move(state, trigger)
    assert state is State.UP


@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda t: f"{t.source}-{t.trigger}")
def test_every_row_of_the_table_is_what_happens(transition: lifecycle.Transition) -> None:
    assert move(transition.source, transition.trigger) is transition.target


def test_no_state_has_two_answers_to_one_trigger() -> None:
    rows = [(transition.source, transition.trigger) for transition in TRANSITIONS]
    assert len(rows) == len({*rows})


@pytest.mark.parametrize("state", State)
def test_only_what_is_in_the_table_is_possible(state: State) -> None:
    everything = {transition.trigger for transition in TRANSITIONS} | {*lifecycle.BY_HAND, "fail"}
    for trigger in everything - {*lifecycle.triggers(state)}:
        with pytest.raises(InvalidInput, match=f"a node that is {state} cannot {trigger}; possible now: "):
            move(state, trigger)
    for trigger in lifecycle.triggers(state):
        assert move(state, trigger) in State


def test_a_node_that_is_up_leaves_only_because_somebody_asked() -> None:
    assert {*lifecycle.triggers(State.UP)} == {"deploy", "verify", "maintain", "retire"}


def test_every_state_can_be_reached_and_left() -> None:
    reached = {State.SEEN} | {move(state, trigger) for state in State for trigger in lifecycle.triggers(state)}
    assert reached == {*State}
    assert all(lifecycle.triggers(state) for state in State)


@pytest.mark.parametrize("state", State)
def test_working_states_and_no_others_have_a_deadline(state: State) -> None:
    deadline = lifecycle.deadline(state, NOW)
    assert (deadline is not None) == (state in WORKING)
    if deadline is not None:
        assert lifecycle.overdue(state, deadline, deadline - timedelta(seconds=1)) is None
        reason = lifecycle.overdue(state, deadline, deadline)
        assert reason is not None
        assert str(state) in reason
        assert move(state, "fail") is State.FAILED
    assert lifecycle.overdue(state, None, NOW) is None


def test_a_retired_node_can_only_be_enrolled_anew() -> None:
    assert lifecycle.triggers(State.RETIRED) == ["enroll"]
    with pytest.raises(InvalidInput):
        move(State.RETIRED, "retire")


def test_the_picture_and_the_table_hold_every_transition() -> None:
    for transition in TRANSITIONS:
        assert f"{transition.source} --> {transition.target}: {transition.trigger}" in lifecycle.picture()
        assert f"| {transition.source} | {transition.trigger} | {transition.target} |" in lifecycle.table()
