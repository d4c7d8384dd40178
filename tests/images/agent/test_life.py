"""The agent's whole life against a head node of a few lines, without touching this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from images.agent import __main__ as life
from images.agent import efi, execute, inventory
from images.agent.errors import StepFailed
from images.agent.head import Head
from images.agent.plan import parse_plan
from images.agent.report import Reporter
from images.agent.runner import Log, Output
from images.agent.settings import Settings
from tests.images.fakehead import FakeHead, Server, serve

FACTS = {"disks": [], "nics": [{"name": "eth0", "link": True, "lldp": None}]}


@pytest.fixture
def fake() -> Iterator[tuple[FakeHead, Server]]:
    said = FakeHead()
    server = serve(said)
    yield said, server
    server.shutdown()
    server.server_close()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Programs the agent would have run; none is."""
    programs: list[list[str]] = []

    def record(argv: Any, **_: Any) -> Output:
        programs.append(list(argv))
        return Output(0, "", "")

    monkeypatch.setattr(life, "run", record)
    monkeypatch.setattr(life, "sync", lambda: None)
    monkeypatch.setattr(life, "TOKEN_PATIENCE", 0.0)
    monkeypatch.setattr(inventory, "collect", lambda _: FACTS)
    monkeypatch.setattr(efi, "repair", lambda _: "")
    return programs


def agent(server: Server) -> life.Agent:
    url = f"http://127.0.0.1:{server.server_port}"
    return life.Agent(Settings(url, "deploy", "52:54:00:aa:00:01"), Head(url, patience=1, sleep=lambda _: None), Log())


def test_an_inspected_machine_reports_and_restarts(fake: tuple[FakeHead, Server], ran: list[list[str]]) -> None:
    said, server = fake
    said.intent = "inspect"
    assert agent(server).live() == 3
    assert said.facts == {**FACTS, "boot_mac": "52:54:00:aa:00:01"}
    assert said.done == 1
    assert ["busybox", "reboot", "-f"] in ran


def test_a_refused_plan_ends_with_the_heads_own_reason(fake: tuple[FakeHead, Server], ran: list[list[str]]) -> None:
    said, server = fake
    assert agent(server).live() == 1
    assert said.failed is not None
    assert (said.failed["step"], said.failed["reason"]) == ("plan", "there is no plan for this machine")
    assert ran == []


def test_an_unknown_step_is_refused_before_anything_is_done(
    fake: tuple[FakeHead, Server], ran: list[list[str]]
) -> None:
    said, server = fake
    steps = [{"name": "touch", "do": "run", "argv": ["touch", "/tmp/never"]}, {"name": "odd", "do": "eval"}]
    said.plan = lambda _: {"version": 1, "disks": [], "steps": steps}
    assert agent(server).live() == 1
    assert said.failed is not None
    assert said.failed["reason"] == "step 2 (odd) is an unknown step: 'eval'"
    assert "1/2" not in said.log


def test_a_plan_that_works_ends_with_done_and_a_restart(fake: tuple[FakeHead, Server], ran: list[list[str]]) -> None:
    said, server = fake
    said.plan = lambda _: {"version": 1, "disks": [], "steps": [{"name": "yes", "do": "run", "argv": ["true"]}]}
    assert agent(server).live() == 3
    assert (said.done, said.failed) == (1, None)
    assert [event["kind"] for event in said.events] == ["inventory", "step", "step-done", "deployed"]


def test_a_program_that_fails_is_the_reason(fake: tuple[FakeHead, Server], ran: list[list[str]]) -> None:
    said, server = fake
    argv = ["sh", "-c", "echo one; echo two >&2; exit 7"]
    said.plan = lambda _: {"version": 1, "disks": [], "steps": [{"name": "break", "do": "run", "argv": argv}]}
    assert agent(server).live() == 1
    assert said.failed is not None
    assert said.failed["step"] == "break"
    assert said.failed["reason"].endswith("failed with exit code 7: two")
    assert "one" in said.failed["log"]


def test_an_image_that_is_missing_is_noticed_before_a_disk_is_erased(
    fake: tuple[FakeHead, Server], ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said, server = fake
    disk = {"name": "system", "device": "/dev/vda", "serial": "S1", "wwn": "", "size": 1 << 30}
    monkeypatch.setattr(execute, "disk_facts", lambda: [{**disk, "read_only": False}])
    erase = {"name": "erase", "do": "run", "argv": ["touch", str(tmp_path / "erased")], "destroys": ["/dev/vda"]}
    image = {"name": "unpack", "do": "image", "url": "/images/none", "sha256": "0" * 64, "size": 1}
    steps = [{"name": "look", "do": "check-disks"}, erase, image]
    said.plan = lambda _: {"version": 1, "disks": [disk], "steps": steps}
    assert agent(server).live() == 1
    assert said.failed is not None
    assert said.failed["step"] == "unpack"
    assert "/images/none is not on the head node" in said.failed["reason"]
    assert not (tmp_path / "erased").exists()


def test_a_claim_whose_answer_was_lost_is_made_again(fake: tuple[FakeHead, Server], ran: list[list[str]]) -> None:
    said, server = fake
    said.intent = "inspect"
    said.trouble["/node/v1/claim"] = [404]
    assert agent(server).live() == 3
    assert said.requests.count("GET /token") == 2


def test_a_machine_with_nothing_to_do(fake: tuple[FakeHead, Server], ran: list[list[str]]) -> None:
    said, server = fake
    said.done = 1
    assert agent(server).live() == 2
    assert ran == []
    assert said.failed is None


def test_the_agents_own_faults_are_reported_too(
    fake: tuple[FakeHead, Server], ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said, server = fake

    def broken(_: object) -> dict[str, Any]:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(inventory, "collect", broken)
    assert agent(server).live() == 1
    assert said.failed is not None
    assert said.failed["step"] == "inventory"
    assert "ZeroDivisionError: oops" in said.failed["reason"]


def test_an_image_never_fills_the_ramdisk(tmp_path: Path) -> None:
    step = {"name": "image", "do": "image", "url": "/images/a", "sha256": "0" * 64, "size": 1}
    plan = parse_plan({"version": 1, "disks": [], "steps": [step]})
    head = Head("http://127.0.0.1:1")
    with pytest.raises(StepFailed, match="nothing is mounted at /target"):
        execute.Execution(plan, head, Reporter(head, Log())).run()


@pytest.mark.parametrize(("wanted", "repaired"), [({}, 1), ({"network_first": True}, 1), ({"network_first": False}, 0)])
def test_the_boot_order_is_put_right_where_that_is_wanted(
    fake: tuple[FakeHead, Server],
    ran: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    wanted: dict[str, bool],
    repaired: int,
) -> None:
    said, server = fake
    said.plan = lambda _: {"version": 1, "disks": [], "steps": [], **wanted}
    calls: list[Log] = []

    def repair(log: Log) -> str:
        calls.append(log)
        return "the order was changed"

    monkeypatch.setattr(life, "EFI", tmp_path)
    monkeypatch.setattr(efi, "repair", repair)
    assert agent(server).live() == 3
    assert (len(calls), said.done) == (repaired, 1)
