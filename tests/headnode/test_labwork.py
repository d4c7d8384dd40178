"""How long a lab will take, as far as it can be known."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from headnode.cli.labwork import USUAL, Phases, Rollout, bring_up, said
from headnode.errors import HeadnodeError
from headnode.lab.machine import Accelerator
from headnode.lab.spec import Spec
from headnode.model import State
from headnode.workflows import enroll
from headnode.workflows.context import Context
from tests.support import row

PLAN = ("ramdisk", "image", "boot", "deploy", "verify")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("headnode.cli.labwork.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_first_time_the_usual_is_expected(tmp_path: Path, clock: Clock) -> None:
    whole = USUAL["ramdisk"] + USUAL["image"] + USUAL["boot"] + 2 * (USUAL["deploy"] + USUAL["verify"])
    assert Phases(tmp_path / "timings.json", 2, PLAN).left() == whole
    assert Phases(tmp_path / "timings.json", 2, ("boot",)).left() == USUAL["boot"]


def test_what_a_phase_took_is_expected_the_next_time(tmp_path: Path, clock: Clock) -> None:
    timings = tmp_path / "timings.json"
    phases = Phases(timings, 1, PLAN)
    with phases.phase("ramdisk"):
        clock.now += 20
        assert phases.left() == sum(USUAL.values()) - 20
        clock.now += 400
        # Longer than expected: that it will end some time is all that is known.
        assert phases.left() == sum(USUAL.values()) - USUAL["ramdisk"]
    assert json.loads(timings.read_text())["ramdisk"] == 420
    assert Phases(timings, 1, PLAN).left() == sum(USUAL.values()) - USUAL["ramdisk"] + 420
    # What was there already says nothing about building it.
    Phases(timings, 1, PLAN).passed("ramdisk", 0.1)
    assert json.loads(timings.read_text())["ramdisk"] == 420


def test_an_interrupted_phase_says_nothing_about_the_next(tmp_path: Path, clock: Clock) -> None:
    timings = tmp_path / "timings.json"
    phases = Phases(timings, 1, PLAN)

    def interrupted() -> None:
        with phases.phase("image"):
            clock.now += 5
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not timings.exists()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"image": "long"}'])
def test_a_damaged_record_is_as_good_as_none(tmp_path: Path, clock: Clock, content: str) -> None:
    timings = tmp_path / "timings.json"
    timings.write_text(content)
    assert Phases(timings, 1, PLAN).left() == sum(USUAL.values())


def test_the_summary_names_every_phase(tmp_path: Path, clock: Clock) -> None:
    phases = Phases(tmp_path / "timings.json", 2, PLAN)
    for name in PLAN:
        with phases.phase(name):
            clock.now += 30
    summary = phases.summary()
    assert all(f"{name} 30 s" in summary for name in PLAN)
    assert summary.endswith("2.5 min in all.")


def test_seconds_become_minutes_when_there_are_many() -> None:
    assert (said(0.4), said(89), said(150)) == ("0 s", "89 s", "2.5 min")


class Nodes:
    """Nodes that go through their states by themselves: a step for each look, as the inventory would show it."""

    def __init__(self, context: Context, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
        self.context = context
        self.begun: list[str] = []
        self.together: list[set[str]] = []
        self.failing = ""
        for number, name in enumerate(names, 1):
            enroll.enroll(context, [row(name=name, mac=f"52:54:00:aa:00:{number:02x}", profile="gpu")])
        monkeypatch.setattr("headnode.cli.labwork.tell_and_run", self.deploy)
        monkeypatch.setattr("headnode.cli.labwork.time.sleep", lambda seconds: self.step())
        monkeypatch.setattr("headnode.lab.qemu.accelerator", lambda: Accelerator.EMULATION)

    def state(self, name: str, state: State, reason: str | None = None) -> None:
        with self.context.inventory.change("test", "test") as change:
            change.replace([replace(node, state=state, reason=reason) for node in change.nodes([name])])

    def deploy(self, spec: Spec, verb: str, name: str, *more: str) -> None:
        assert verb == "deploy"
        self.begun.append(name)
        self.state(name, State.DEPLOYING)

    def step(self) -> None:
        nodes = self.context.inventory.nodes()
        self.together.append({node.name for node in nodes if node.state is State.DEPLOYING})
        onwards = {State.DEPLOYING: State.VERIFYING, State.VERIFYING: State.UP}
        for node in nodes:
            if node.state in onwards:
                failed = node.name == self.failing
                reached = State.FAILED if failed else onwards[node.state]
                self.state(node.name, reached, "the disk is bad" if failed else None)


def rollout(context: Context, tmp_path: Path) -> Rollout:
    return Rollout(Phases(tmp_path / "timings.json", 2, PLAN), Spec(), context)


def test_nodes_follow_one_another_until_all_are_up(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = Nodes(context, monkeypatch, ("gpu01", "gpu02"))
    made = rollout(context, tmp_path)
    made.run()
    assert nodes.begun == ["gpu01", "gpu02"]
    assert max(len(busy) for busy in nodes.together) == 1
    assert {node.state for node in context.inventory.nodes()} == {State.UP}
    assert set(made.phases.took) == {"deploy", "verify"}


@pytest.mark.parametrize(("up", "left"), [((), 2), (("gpu01",), 1), (("gpu01", "gpu02"), 0)])
def test_what_is_up_already_takes_no_time(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    up: tuple[str, ...],
    left: int,
) -> None:
    nodes = Nodes(context, monkeypatch, ("gpu01", "gpu02"))
    for name in up:
        nodes.state(name, State.UP)
    monkeypatch.setattr("headnode.lab.spec.Places.of", lambda name: SimpleNamespace(head=context.paths))
    monkeypatch.setattr("headnode.lab.link.ask", lambda places, order: {})
    monkeypatch.setattr("headnode.lab.link.up", lambda spec, progress: {})
    phases = Phases(tmp_path / "timings.json", 2, ("boot", "deploy", "verify"))
    bring_up(phases, rollout(context, tmp_path).spec)
    assert phases.left() == left * (USUAL["deploy"] + USUAL["verify"])
    assert capsys.readouterr().err == ""


def test_what_an_interrupted_run_had_begun_is_watched_and_not_begun_again(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = Nodes(context, monkeypatch, ("gpu01", "gpu02"))
    nodes.state("gpu01", State.DEPLOYING)
    nodes.state("gpu02", State.UP)
    rollout(context, tmp_path).run()
    assert nodes.begun == []
    rollout(context, tmp_path).run()
    assert nodes.begun == []


def test_a_node_that_fails_ends_it_with_its_reason_and_is_tried_again_the_next_time(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = Nodes(context, monkeypatch, ("gpu01", "gpu02"))
    nodes.failing = "gpu02"
    with pytest.raises(HeadnodeError, match=r"gpu02 failed: .*the disk is bad"):
        rollout(context, tmp_path).run()
    nodes.failing = ""
    rollout(context, tmp_path).run()
    assert nodes.begun == ["gpu01", "gpu02", "gpu02"]
