"""Out of service by hand, and back: nothing on a node is touched, and nobody is bothered meanwhile."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headnode.errors import InvalidInput
from headnode.model import Event, Intent, Node, Severity, State
from headnode.reconcile import notifying
from headnode.workflows import deploy, enroll, maintenance, nodes, publishing, status, verify, why
from headnode.workflows.context import Context
from tests.support import headnode, row_of

GOOD: list[dict[str, Any]] = [{"name": "clock", "ok": True, "message": "well", "offset_ms": 0.1}]


@pytest.fixture
def enrolled(context: Context) -> Context:
    assert enroll.enroll(context, [row_of(n) for n in range(1, 6)]).problems == []
    publishing.publish_changes(context)
    return context


def node_of(context: Context, name: str = "gpu01") -> Node:
    return context.inventory.nodes([name])[0]


def install(context: Context, name: str = "gpu01") -> None:
    (work,) = deploy.begin(context, [name], Intent.DEPLOY, image="base@1")
    deploy.done(context, work, node_of(context, name))
    assert deploy.verified(context, node_of(context, name), GOOD) is State.UP


def kinds(context: Context, name: str = "gpu01") -> list[str]:
    return [event.kind for event in context.inventory.events(name)]


def test_what_is_installed_has_to_show_how_it_is_before_it_is_up_again(enrolled: Context) -> None:
    install(enrolled)
    assert maintenance.maintain(enrolled, ["gpu01"], "a new DIMM") == ["gpu01"]
    node = node_of(enrolled)
    assert (node.state, node.intent, node.reason, node.deadline) == (
        State.MAINTENANCE, Intent.DISK, "a new DIMM", None
    )  # fmt: skip
    assert deploy.verified(enrolled, node, GOOD) is State.MAINTENANCE, "a report does not take it back"
    (back,) = maintenance.resume(enrolled, ["gpu01"])
    assert back.state is State.VERIFYING
    node = node_of(enrolled)
    assert (node.state, node.reason) == (State.VERIFYING, None)
    assert node.deadline is not None, "no working state without an end"
    assert (enrolled.paths.published / f"http/asked/{node.address}").exists(), "it is asked"
    assert deploy.verified(enrolled, node, GOOD) is State.UP
    assert kinds(enrolled)[-4:] == ["maintain", "resume", "verify.asked", "verify"]


def test_where_nothing_is_installed_there_is_nothing_to_show(enrolled: Context) -> None:
    maintenance.maintain(enrolled, ["gpu01"])
    assert [node.state for node in maintenance.resume(enrolled, ["gpu01"])] == [State.READY]
    node = node_of(enrolled)
    assert (node.state, node.deadline) == (State.READY, None)
    (answer,) = why.why(enrolled, "gpu01")
    assert answer.finding is None


def test_what_was_under_way_is_over(enrolled: Context) -> None:
    (work,) = deploy.begin(enrolled, ["gpu01"], Intent.DEPLOY, image="base@1")
    maintenance.maintain(enrolled, ["gpu01"], "smoke")
    over = enrolled.inventory.deployment(node_of(enrolled))
    assert over is not None
    assert over.result == "maintenance"
    assert enrolled.inventory.running_deployment(str(node_of(enrolled).address)) is None, "its agent is refused"
    deploy.failed(enrolled, work, node_of(enrolled), "partition", "nobody answers me")
    assert node_of(enrolled).reason == "smoke"
    deploy.expire_overdue(enrolled)
    assert node_of(enrolled).state is State.MAINTENANCE
    assert [node.state for node in maintenance.resume(enrolled, ["gpu01"])] == [State.READY], "it was not finished"


def test_nothing_is_begun_on_it(enrolled: Context) -> None:
    maintenance.maintain(enrolled, ["gpu01"])
    with pytest.raises(InvalidInput, match="gpu01 is maintenance and cannot deploy; possible now: resume"):
        deploy.begin(enrolled, ["gpu01", "gpu02"], Intent.DEPLOY, image="base@1")
    assert node_of(enrolled, "gpu02").state is State.ENROLLED
    with pytest.raises(InvalidInput, match="cannot be verified: maintenance") as refused:
        verify.ask(enrolled, [node_of(enrolled)])
    assert refused.value.hint == "headnode resume gpu01"


def test_all_or_none_come_back(enrolled: Context) -> None:
    maintenance.maintain(enrolled, ["gpu01"])
    with pytest.raises(InvalidInput, match="gpu02 not in maintenance but enrolled; nothing was changed"):
        maintenance.resume(enrolled, ["gpu01", "gpu02"])
    assert node_of(enrolled).state is State.MAINTENANCE


def trouble(context: Context, name: str) -> None:
    with context.inventory.change("test", "test") as change:
        change.record_all([Event("sensor", "PSU1 lost its input", "", "", name, Severity.ERROR)])


def test_nobody_is_bothered_meanwhile(enrolled: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maintenance.maintain(enrolled, ["gpu01"], "new power supplies")
    with enrolled.paths.site_file.open("a") as file:
        file.write(f"\nnotify: {{webhook_file: {tmp_path}/webhook}}\n")
    at = Context(enrolled.paths, "reconcile", "test")
    told: list[Event] = []
    monkeypatch.setattr(notifying, "send", lambda _, news: told.extend(news))
    notifying.tell(at)
    trouble(enrolled, "gpu01")
    trouble(enrolled, "gpu02")
    assert notifying.tell(at) == 1
    assert [event.node for event in told] == ["gpu02"]
    assert notifying.tell(at) == 0, "what was left out is not told later"
    lines = {line.what: line for line in status.status(at).lines}
    assert lines["maintenance gpu01"].words == "new power supplies"
    assert lines["maintenance gpu01"].severity is Severity.INFO
    assert "lately gpu02" in lines
    assert "lately gpu01" not in lines
    at.close()


def test_why_says_who_took_it(enrolled: Context) -> None:
    maintenance.maintain(enrolled, ["gpu01"], "a new DIMM")
    said = headnode(enrolled.paths.root, "why", "gpu01").out
    assert said.startswith("gpu01: nothing wrong: it is in maintenance (a new DIMM)\n")
    assert "; it is in maintenance\n" in said
    assert "; it is enrolled\n" in headnode(enrolled.paths.root, "why", "gpu02").out


def test_on_the_command_line(enrolled: Context) -> None:
    root = enrolled.paths.root
    install(enrolled, "gpu02")
    found = headnode(root, "maintain", "gpu[01-02]", "--dry-run")
    assert (found.code, found.out) == (0, "gpu[01-02]: goes into maintenance\n")
    assert node_of(enrolled).state is State.ENROLLED
    found = headnode(root, "maintain", "gpu[01-02]", "--reason", "it's the fans", "--yes")
    assert (found.code, found.err) == (0, "In maintenance: gpu[01-02].\n")
    assert "it's the fans" in headnode(root, "show", "gpu01").out
    again = headnode(root, "maintain", "gpu[01-02]", "--reason", "it's the fans")
    assert (again.code, again.err) == (0, "Nothing to do: in maintenance already.\n")
    found = headnode(root, "resume", "gpu[01-02]", "--dry-run")
    assert found.out == (
        "gpu01: is ready: nothing is installed on it\ngpu02: is verified, and up when it passes\n"
    )  # fmt: skip
    found = headnode(root, "resume", "gpu[01-02]", "--yes")
    assert found.err == (
        "Verifying: gpu02; 'headnode verify --last' shows what they say.\nReady: gpu01; nothing installed.\n"
    )
    wrong = headnode(root, "resume", "gpu01", "--yes")
    assert (wrong.code, wrong.err) == (2, "headnode: gpu01 not in maintenance but ready; nothing was changed\n")


@pytest.mark.parametrize("reason", ["x" * 201, "two\nlines", "\x1b[31m"])
def test_a_reason_is_one_line(enrolled: Context, reason: str) -> None:
    found = headnode(enrolled.paths.root, "maintain", "gpu01", "--reason", reason, "--yes")
    assert found.code == 2
    assert "use one line of at most 200 characters" in found.err
    assert node_of(enrolled).state is State.ENROLLED


def test_many_nodes_need_their_number_typed(enrolled: Context) -> None:
    refused = headnode(enrolled.paths.root, "maintain", "gpu[01-05]", typed=b"4\n")
    assert refused.code == 2
    assert "'4' is not 5; nothing was changed" in refused.err
    headnode(enrolled.paths.root, "maintain", "gpu[01-05]", typed=b"5\n")
    assert {node.state for node in enrolled.inventory.nodes()} == {State.MAINTENANCE}
    assert headnode(enrolled.paths.root, "resume", "gpu[01-05]").code == 2, "a script has to say --yes"


def test_a_retired_node_cannot_be_taken(enrolled: Context) -> None:
    with pytest.raises(InvalidInput, match="a node that is retired cannot maintain"):
        maintenance.plan_maintain([replace(node_of(enrolled), state=State.RETIRED)])


def test_a_rescue_ends_with_maintenance_and_takes_no_reason_with_it(enrolled: Context) -> None:
    install(enrolled)
    maintenance.maintain(enrolled, ["gpu01"], "a new DIMM")
    deploy.begin(enrolled, ["gpu01"], Intent.RESCUE)
    assert node_of(enrolled).reason == "a new DIMM"
    maintenance.resume(enrolled, ["gpu01"])
    node = node_of(enrolled)
    assert (node.state, node.intent) == (State.VERIFYING, Intent.DISK)
    work = enrolled.inventory.deployment(node)
    assert work is not None
    assert (work.intent, work.result) == (Intent.RESCUE, "resumed")


def test_whose_trouble_was_known_may_still_show_that_it_is_over(enrolled: Context) -> None:
    install(enrolled)
    verify.ask(enrolled, [node_of(enrolled)])
    deploy.verified(enrolled, node_of(enrolled), [{"name": "mount /data", "ok": False, "message": "not there"}, *GOOD])
    deploy.begin(enrolled, ["gpu01"], Intent.RESCUE)
    node = node_of(enrolled)
    assert (node.state, "mount /data" in str(node.reason), verify.may_verify(node)) == (State.FAILED, True, True)


def test_a_reason_is_forgotten_only_for_another(enrolled: Context) -> None:
    maintenance.maintain(enrolled, ["gpu01"], "a new DIMM")
    maintenance.maintain(enrolled, ["gpu01", "gpu02"])
    assert [node_of(enrolled, name).reason for name in ("gpu01", "gpu02")] == ["a new DIMM", None]
    maintenance.maintain(enrolled, ["gpu01"], "and a fan")
    assert node_of(enrolled).reason == "and a fan"


def test_another_machine_of_the_same_name_has_nothing_installed(enrolled: Context) -> None:
    install(enrolled)
    nodes.retire(enrolled, ["gpu01"])
    assert enroll.enroll(enrolled, [row_of(1)]).problems == []
    maintenance.maintain(enrolled, ["gpu01"])
    (move,) = maintenance.plan_resume(enrolled, [node_of(enrolled)])
    assert move.text == "is ready: nothing is installed on it"


def test_what_may_be_done_is_said_in_words_that_work(enrolled: Context) -> None:
    install(enrolled)
    maintenance.maintain(enrolled, ["gpu01"])
    refused = headnode(enrolled.paths.root, "verify", "gpu01")
    assert (refused.code, "hint: headnode resume gpu01" in refused.err) == (2, True)
    with pytest.raises(InvalidInput, match="possible now: resume"):
        deploy.begin(enrolled, ["gpu01"], Intent.DEPLOY, image="base@1")
