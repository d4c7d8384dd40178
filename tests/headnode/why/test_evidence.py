"""What is read of a node's history: enough to tell, of the right piece of work, and never all of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headnode.model import Deployment, Event, Intent, Node, Severity, State
from headnode.workflows import deploy, enroll, nodes, publishing, why
from headnode.workflows.context import Context
from headnode.workflows.evidence import FIRST, LAST, MARKS, MOST_AT_REST, Evidence
from tests.support import row_of


@pytest.fixture
def enrolled(context: Context) -> Context:
    assert enroll.enroll(context, [row_of(1)]).problems == []
    publishing.publish_changes(context)
    return context


def node_of(context: Context) -> Node:
    return context.inventory.nodes(["gpu01"])[0]


def asked(context: Context) -> Deployment:
    return deploy.begin(context, ["gpu01"], Intent.DEPLOY, image="base@1")[0]


def asked_again(context: Context) -> Deployment:
    """Within the same second."""
    deploy.abort(context, ["gpu01"])
    return asked(context)


def happened(context: Context, kind: str, count: int = 1, **more: Any) -> None:
    with context.inventory.change("test", "test") as change:
        change.record_all(Event(kind, kind, "boot plane", "", "gpu01", **more) for _ in range(count))


def step(context: Context, work: Deployment, name: str) -> None:
    deploy.progress(context, work, [{"kind": "step", "message": name, "step": name}])


def kinds(context: Context) -> list[str]:
    return [event.kind for event in Evidence(context).case(node_of(context)).timeline]


def test_a_long_history_is_not_read_to_its_beginning(enrolled: Context) -> None:
    happened(enrolled, "http", 5 * MOST_AT_REST)
    assert len(Evidence(enrolled).case(node_of(enrolled)).timeline) <= MOST_AT_REST + MARKS


def test_a_second_deployment_has_nothing_of_the_first(enrolled: Context) -> None:
    """Both within one second, as far as logs can tell."""
    first = asked(enrolled)
    happened(enrolled, "dhcp.ack", at=datetime.now(UTC).replace(microsecond=0))
    step(enrolled, first, "partition")
    assert "agent.step" in kinds(enrolled)
    asked_again(enrolled)
    assert kinds(enrolled) == ["deploy"]
    (answer,) = why.why(enrolled, "gpu01")
    assert answer.asked.step is None
    assert [step.stage.value for step in answer.chain if step.reached] == ["enrolled", "published"]


def test_an_agents_last_words_are_those_of_its_own_work(enrolled: Context) -> None:
    """What it sent before it was replaced may be recorded afterwards."""
    first = asked(enrolled)
    second = asked_again(enrolled)
    step(enrolled, first, "stream the image")
    assert kinds(enrolled) == ["deploy"]
    step(enrolled, second, "partition")
    assert kinds(enrolled) == ["deploy", "agent.step"]


def test_a_failure_of_what_was_replaced_fails_nothing(enrolled: Context) -> None:
    first = asked(enrolled)
    second = asked_again(enrolled)
    deploy.failed(enrolled, first, node_of(enrolled), "partition", "the disk is gone")
    assert node_of(enrolled).state is State.DEPLOYING
    deploy.failed(enrolled, second, node_of(enrolled), "partition", "the disk is full")
    deploy.failed(enrolled, second, node_of(enrolled), "partition", "said again, because it was not answered")
    assert node_of(enrolled).reason == "the disk is full"
    assert kinds(enrolled).count("failed") == 1


def test_a_node_that_failed_long_ago_is_still_explained(enrolled: Context) -> None:
    """It has been starting again every minute since; what it said of itself is far back."""
    work = asked(enrolled)
    happened(enrolled, "dhcp.ack")
    deploy.done(enrolled, work, node_of(enrolled))
    checks = [{"name": "gpu bars", "ok": False, "message": "no room was found for 0000:90:00.0 region 1"}]
    deploy.verified(enrolled, node_of(enrolled), checks)
    happened(enrolled, "sensor", FIRST)
    happened(enrolled, "dhcp.ack", 3 * LAST)
    happened(enrolled, "sel", severity=Severity.ERROR)
    found = kinds(enrolled)
    assert len(found) <= FIRST + LAST + MARKS
    assert {"deploy", "deployed", "verify", "sel"} <= set(found)
    (answer,) = why.why(enrolled, "gpu01")
    assert answer.finding is not None
    assert answer.finding.cause == "gpu-bar"


def test_the_work_of_a_machine_that_is_gone_is_not_its_successors(enrolled: Context) -> None:
    asked(enrolled)
    nodes.retire(enrolled, ["gpu01"])
    publishing.publish_changes(enrolled)
    assert enroll.enroll(enrolled, [row_of(1)]).problems == []
    publishing.publish_changes(enrolled)
    (answer,) = why.why(enrolled, "gpu01")
    assert (answer.asked.what, answer.finding) == ("nothing", None)


def test_what_it_was_asked_is_known_however_long_it_has_been_up(enrolled: Context) -> None:
    """A report of last night is not hidden by the noise of this morning."""
    with enrolled.inventory.change("test", "test") as change:
        change.replace([replace(change.nodes(["gpu01"])[0], state=State.UP)])
    night = datetime.now(UTC) - timedelta(hours=8)
    checks = {"checks": [{"name": "clock", "ok": False, "message": "3 s off"}]}
    happened(enrolled, "verify", at=night, severity=Severity.ERROR, data=checks)
    happened(enrolled, "http", 2 * MOST_AT_REST)
    publishing.publish_changes(enrolled)
    (answer,) = why.why(enrolled, "gpu01")
    assert answer.finding is not None
    assert answer.finding.cause == "clock-off"


def test_when_it_was_published_is_part_of_its_way(enrolled: Context) -> None:
    asked(enrolled)
    (answer,) = why.why(enrolled, "gpu01")
    step = next(step for step in answer.chain if step.stage == "published")
    assert step.reached
    assert step.at is not None
    assert answer.asked.at is not None
    assert step.at > answer.asked.at
    with enrolled.inventory.change("test", "not published yet") as change:
        change.replace([replace(change.nodes(["gpu01"])[0], rack="r9")])
    (answer,) = why.why(enrolled, "gpu01")
    assert [(step.reached, step.at) for step in answer.chain if step.stage == "published"] == [(False, None)]


def test_the_wish_is_found_however_often_trouble_was_reported_since(enrolled: Context) -> None:
    asked(enrolled)
    with enrolled.inventory.change("test", "test") as change:
        change.record_all([Event("verify.asked", "asked", "", "", "gpu01")])
        change.record_all(Event("verify", f"trouble {n}", "", "", "gpu01") for n in range(2 * MARKS))
    assert Evidence(enrolled).case(node_of(enrolled)).asked.what == "verify"


def test_the_same_trouble_is_reported_once(enrolled: Context) -> None:
    (work,) = deploy.begin(enrolled, ["gpu01"], Intent.DEPLOY, image="base@1")
    deploy.done(enrolled, work, node_of(enrolled))
    bad: list[dict[str, Any]] = [{"name": "clock", "ok": False, "message": "far off"}]
    for _ in range(3):
        assert deploy.verified(enrolled, node_of(enrolled), bad) is State.FAILED
    deploy.verified(enrolled, node_of(enrolled), [*bad, {"name": "mount /data", "ok": False, "message": "not there"}])
    assert len([event for event in enrolled.inventory.events("gpu01") if event.kind == "verify"]) == 2


def test_forgotten_steps_are_not_taken_for_steps_never_made(enrolled: Context) -> None:
    work = asked(enrolled)
    happened(enrolled, "dhcp.ack")
    deploy.fail(enrolled, node_of(enrolled), "deploying", "sgdisk: the disk is read-only", actor="agent", work=work)
    happened(enrolled, "http")
    enrolled.inventory.history.forget(datetime.now(UTC) + timedelta(days=1), most=1000)
    assert "dhcp.ack" not in [event.kind for event in enrolled.inventory.events("gpu01")]
    answer = why.why_node(enrolled, node_of(enrolled))
    assert answer.sentence == (
        "sgdisk: the disk is read-only (the steps before it are too long ago, and were forgotten)"
    )
    assert answer.chain == ()
