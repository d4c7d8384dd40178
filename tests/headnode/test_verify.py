"""Verification from the head node's side: what is expected, who is asked, what their answers mean."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headnode.errors import InvalidInput
from headnode.model import Intent, Node, State
from headnode.site import Site
from headnode.why.outliers import outliers
from headnode.workflows import deploy, enroll, expectations, nodes, publishing, verify
from headnode.workflows.context import Context
from headnode.workflows.deploy import on_our_clock, percent_or_none
from tests.support import headnode, row_of

HARDWARE = {"memory_bytes": 64 << 30, "cpus": 32, "disks": [{"serial": "A"}, {"serial": "U", "removable": True}],
            "gpus": [{}, {}]}  # fmt: skip
CLOCK = {"name": "clock", "ok": True, "message": "well", "offset_ms": 0.1}
GOOD: list[dict[str, Any]] = [{"name": "cpus", "ok": True, "message": "32", "data": {"count": 32}}, CLOCK]
BAD = [{"name": "cpus", "ok": False, "message": "30, 32 inventoried"}, CLOCK]


@pytest.fixture
def up(context: Context) -> Context:
    """Four nodes that are up."""
    assert enroll.enroll(context, [row_of(n) for n in range(1, 5)]).problems == []
    with context.inventory.change("test", "test") as change:
        for node in change.nodes():
            change.replace([to(node, State.UP)])
    publishing.publish_changes(context)
    return context


def to(node: Node, state: State, **more: Any) -> Node:
    from dataclasses import replace

    return replace(node, state=state, **more)


def state(context: Context, name: str = "gpu01") -> State:
    return context.inventory.nodes([name])[0].state


def asked_file(context: Context, name: str = "gpu01") -> Path:
    return context.paths.published / f"http/asked/{context.inventory.nodes([name])[0].address}"


def test_expectations_come_from_settings_layout_and_inventory(up: Context, site: Site) -> None:
    node = up.inventory.nodes(["gpu01"])[0]
    found = expectations.of(site, node, HARDWARE)
    assert found["memory_bytes"] == 64 << 30
    assert (found["cpus"], found["gpu_count"], found["disks"]) == (32, 2, ["A"])
    assert found["fqdn"] == "gpu01.demo.lan"
    assert found["macs"] == [node.mac]
    assert found["filesystems"]["/"] == "ext4"
    assert "raid" not in found
    assert "burn_in" not in found
    nodes.set_fields(up, ["gpu01"], {"gpus": "8", "link_speed": "25000"})
    node = up.inventory.nodes(["gpu01"])[0]
    found = expectations.of(site, node, HARDWARE)
    assert (found["gpu_count"], found["link_speed"]) == (8, 25000)
    assert "memory_bytes" not in expectations.of(site, node, {})


def test_a_node_is_asked_by_a_file_of_its_own(up: Context) -> None:
    assert not asked_file(up).exists()
    verify.ask(up, up.inventory.nodes(["gpu01"]))
    assert state(up) is State.VERIFYING
    assert '"ask": "verify"' in asked_file(up).read_text()
    assert not asked_file(up, "gpu02").exists()
    assert deploy.verified(up, up.inventory.nodes(["gpu01"])[0], GOOD) is State.UP
    assert not asked_file(up).exists()


def test_a_bad_report_fails_and_may_be_asked_again(up: Context) -> None:
    chosen = up.inventory.nodes(["gpu01"])
    verify.ask(up, chosen)
    assert deploy.verified(up, chosen[0], BAD) is State.FAILED
    node = up.inventory.nodes(["gpu01"])[0]
    assert node.reason == "cpus: 30, 32 inventoried"
    verify.ask(up, [node])
    assert deploy.verified(up, node, GOOD) is State.UP


def test_a_node_that_is_up_and_complains_stays_up_and_is_heard(up: Context) -> None:
    node = up.inventory.nodes(["gpu01"])[0]
    assert deploy.verified(up, node, BAD) is State.UP
    said = [event for event in up.inventory.events("gpu01") if event.kind == "verify"]
    assert [event.severity for event in said] == ["error"]
    found = headnode(up.paths.root, "why", "gpu01")
    assert found.code == 1
    assert found.out.startswith("gpu01: likely: it is not what was asked for: cpus: 30, 32 inventoried")


def test_what_is_not_installed_has_nothing_to_show(up: Context) -> None:
    deploy.begin(up, ["gpu02"], Intent.DEPLOY, image="base@1")
    with pytest.raises(InvalidInput, match="gpu02 cannot be verified: deploying"):
        verify.ask(up, up.inventory.nodes(["gpu01", "gpu02"]))
    assert state(up) is State.UP, "all or none"


def test_a_burn_in_is_told_to_the_node_and_given_time(up: Context) -> None:
    verify.ask(up, up.inventory.nodes(["gpu01"]), timedelta(minutes=30))
    node = up.inventory.nodes(["gpu01"])[0]
    assert expectations.expected(up, node)["burn_in"] == 1800
    assert node.deadline is not None
    assert node.deadline > datetime.now(UTC) + timedelta(hours=2)
    deploy.verified(up, node, GOOD)
    assert "burn_in" not in expectations.expected(up, up.inventory.nodes(["gpu01"])[0])
    with pytest.raises(InvalidInput, match="72h"):
        verify.ask(up, [node], timedelta(days=30))


def test_a_node_that_does_not_answer_fails_with_the_reason(up: Context) -> None:
    verify.ask(up, up.inventory.nodes(["gpu01"]))
    with up.inventory.change("test", "time passes") as change:
        change.replace([to(change.nodes(["gpu01"])[0], State.VERIFYING, deadline=datetime.now(UTC))])
    publishing.publish_changes(up)
    deploy.expire_overdue(up)
    node = up.inventory.nodes(["gpu01"])[0]
    assert node.state is State.FAILED
    assert "it was asked for a report and did not answer" in str(node.reason)


def test_a_deadline_that_moved_meanwhile_is_not_passed(up: Context) -> None:
    """What was seen as overdue has just gone on: it is not failed for its past."""
    deploy.begin(up, ["gpu01"], Intent.DEPLOY, image="base@1")
    seen = up.inventory.nodes(["gpu01"])[0]
    with up.inventory.change("test", "it went on") as change:
        later = datetime.now(UTC) + timedelta(minutes=9)
        change.replace([to(seen, State.VERIFYING, deadline=later)])
    deploy.fail(up, seen, "deploying", "too late", actor="reconcile", unchanged=True)
    assert state(up) is State.VERIFYING


def test_the_odd_one_is_named(up: Context) -> None:
    """On the command line, by what they said last."""
    for number, count in enumerate((32, 32, 32, 16), 1):
        node = up.inventory.nodes([f"gpu{number:02}"])
        verify.ask(up, node)
        checks = [{**GOOD[0], "data": {"count": count, "driver": "550" if number > 1 else "535"}}, CLOCK]
        deploy.verified(up, node[0], checks)
    found = headnode(up.paths.root, "verify", "gpu[01-04]", "--last")
    assert found.out == (
        "gpu[01-04]: 2 checks passed\n"
        "outlier: gpu04: cpus count is 16, the others have 32\n"
        "outlier: gpu01: cpus driver is 535, the others have 550\n"
    )
    assert found.code == 0


def test_weather_is_no_outlier() -> None:
    values = {"a": 100, "b": 103, "c": 98, "d": 101, "e": 108}
    reports = {name: [{"name": "ops", "data": {"rate": value}}] for name, value in values.items()}
    assert outliers(reports) == []
    few = {name: [{"name": "ops", "data": {"rate": n * 100}}] for n, name in enumerate("abc")}
    assert outliers(few) == [], "of three nobody can say who is odd"
    assert outliers({"a": [{"name": "x"}], "b": []}) == []


@pytest.mark.parametrize("absurd", [10**400, float("inf"), float("nan"), True, None], ids=lambda value: str(value)[:9])
def test_a_node_that_says_something_absurd_hides_no_outlier(absurd: object) -> None:
    values = {"a": 100, "b": 103, "c": 98, "d": 101, "e": 55, "f": absurd}
    (odd,) = outliers({name: [{"name": "ops", "data": {"rate": value}}] for name, value in values.items()})
    assert (odd.node, odd.value) == ("e", "55")


NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("theirs", "theirs_now", "seconds_ago"),
    [
        (1000.0, 1007.5, 7.5),  # a clock in 1970
        (4e9, 4e9 + 3, 3.0),  # a clock far ahead
        (1010.0, 1000.0, 0.0),  # it cannot have been after it was sent
        (0.0, 1e9, 600.0),  # and not before the work began
        (None, 5.0, 0.0),
        ("x", 5.0, 0.0),
        (5.0, None, 0.0),
        (float("nan"), 5.0, 0.0),
        (5.0, float("nan"), 0.0),
        (float("-inf"), 5.0, 0.0),
        pytest.param(5.0, 10**400, 0.0, id="huge"),
        (True, 5.0, 0.0),
    ],
)
def test_a_nodes_own_clock_may_be_anything(theirs: object, theirs_now: object, seconds_ago: float) -> None:
    found = on_our_clock(theirs, theirs_now, NOW, NOW - timedelta(minutes=10))
    assert found == NOW - timedelta(seconds=seconds_ago)


@pytest.mark.parametrize(
    ("said", "percent"),
    [(41.7, 41), (250, 100), (-1, 0), (10**400, None), (float("nan"), None), (True, None)],
    ids=lambda value: str(value)[:9],
)
def test_a_nodes_percentage_may_be_anything(said: object, percent: int | None) -> None:
    assert percent_or_none(said) == percent
