"""What 'headnode why' makes of a bad day: every fault is injected into real programs, and must be named.

With --update-golden the cases are written to tests/headnode/why/cases and the table to docs/reference/faults.md.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headnode.lab.client import Client, acquire, replies
from headnode.lab.lab import Lab, lab
from headnode.lab.rogue import start_rogue
from headnode.model import State
from headnode.workflows import publishing, why
from headnode.workflows.evidence import Evidence
from images.signing import signer
from images.store import Store
from pxe.dhcp import Architecture
from tests.headnode.why.recorded import CASES, to_document, write
from tests.images.test_store import MANIFEST
from tests.integration.boot import SITE, Head, eventually, head_node, mac
from tests.integration.faults import FAULTS, Fault, begin
from tests.integration.firmware import Machine

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.timeout(600),
    pytest.mark.program("ip", "dnsmasq", "nginx", "nft", "zstd", "tar", "grub-install", "grub-mkstandalone"),
]
LAYOUTS = """
layouts:
  lab:
    disks: {system: {min_size: 8G}}
    volumes:
      - {name: bios, on: system, size: 1M, type: bios-boot}
      - {name: root, on: system, size: rest, mount: /}
"""
DOCS = Path(__file__).parents[2] / "docs/reference/faults.md"
Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(f"w{os.getpid():x}", logs=tmp_path_factory.mktemp("logs")) as made:
        yield made


@pytest.fixture(scope="module")
def head(running: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    root = tmp_path_factory.mktemp("head")
    site = SITE.replace("gpu: {}", "gpu: {layout: lab, image: node}") + LAYOUTS
    with head_node(running, root, site) as made:
        for name in ("node", "bad"):
            add_image(made, name, tmp_path_factory.mktemp(name))
        ramdisk = made.paths.state / "ramdisk/x86_64"
        ramdisk.mkdir(parents=True)
        for name in ("vmlinuz", "initrd"):
            (ramdisk / name).write_bytes(os.urandom(4096))
        made.up()
        yield made


def add_image(head: Head, name: str, work: Path) -> None:
    filled, files = work / "filled", work / "files"
    for directory in (filled, files):
        directory.mkdir()
    (files / "large").write_bytes(os.urandom(4 << 20))
    head.host.run(["tar", "--zstd", "-cf", str(filled / "image.tar.zst"), "-C", str(files), "large"])
    (filled / "packages.json").write_text("[]")
    Store(head.paths.state / "images").publish(name, filled, MANIFEST, signer(head.paths.config))


@pytest.fixture(scope="module")
def machines(head: Head, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Machine]:
    """Every fault has happened, to a node of its own, and whoever was not heard of any more ran out of time."""
    place = tmp_path_factory.mktemp("faults")
    made: dict[str, Machine] = {}
    for number, fault in enumerate(FAULTS, 1):
        image = "bad@1" if fault.name == "image-damaged" else "node@1"
        machine = begin(head, fault.name, number, image=image) if fault.enrolled else Machine(head, fault.name, "")
        made[fault.name] = replace_architecture(machine, fault)
        fault.inject(made[fault.name], place)
    silent = [fault.name for fault in FAULTS if fault.silent and fault.enrolled]
    let_time_pass(head, silent)
    return made


def replace_architecture(machine: Machine, fault: Fault) -> Machine:
    machine.architecture = fault.architecture
    return machine


def let_time_pass(head: Head, names: list[str]) -> None:
    """Their deadlines are over; the loop says why they failed."""
    with head.context.inventory.change("test", "time passes") as change:
        soon = datetime.now(UTC) + timedelta(seconds=3)
        change.replace([replace(node, deadline=soon) for node in change.nodes(names)])
    # An unpublished change would be a cause of its own.
    publishing.publish_changes(head.context)
    eventually(lambda: all(node.state is State.FAILED for node in head.context.inventory.nodes(names)), 40)


@pytest.fixture(scope="module")
def answers(head: Head, machines: dict[str, Machine]) -> Answers:
    names = ",".join(machines)
    said = head.headnode("why", names, "-o", "json", check=False)
    assert said.returncode == 1
    return {answer["name"]: answer for answer in json.loads(said.stdout)}


def keep(head: Head, name: str, about: str, answer: dict[str, Any]) -> None:
    """The case as it was, for the rules' own tests."""
    evidence = Evidence(head.context)
    node = head.context.inventory.node(name)
    case = evidence.case(node) if node else evidence.unknown(name)
    keys = ("cause", "confidence", "sentence", "missing")
    expect = {key: answer.get(key) for key in keys} if answer["wrong"] else {"cause": None}
    write(CASES / f"{name}.yaml", to_document(case, about, expect))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_named(head: Head, answers: Answers, fault: Fault, request: pytest.FixtureRequest) -> None:
    answer = answers[fault.name]
    if request.config.getoption("--update-golden"):
        keep(head, fault.name, fault.about, answer)
    assert answer.get("cause") == fault.cause, json.dumps(answer, indent=1)
    assert answer["wrong"] is (fault.cause is not None)
    if fault.cause is None:
        assert answer["sentence"].startswith("nothing wrong")
    else:
        assert answer["next"]


def test_a_failure_by_deadline_says_the_cause_itself(head: Head, machines: dict[str, Machine]) -> None:
    for fault in FAULTS:
        node = head.context.inventory.node(fault.name)
        if fault.silent and node is not None:
            answer = why.why(head.context, fault.name)[0]
            assert answer.sentence in str(node.reason), fault.name


def test_nodes_with_the_same_trouble_share_a_line(head: Head, machines: dict[str, Machine]) -> None:
    for number in (201, 202, 203):
        begin(head, f"quiet{number - 200:02}", number)
    let_time_pass(head, ["quiet01", "quiet02", "quiet03"])
    said = head.headnode("why", "quiet[01-03]", check=False).stdout
    assert said.startswith("quiet[01-03]: likely: no DHCP request seen")
    assert "  next: headnode seen\n" in said


def test_a_foreign_server_is_named(head: Head, running: Lab, answers: Answers, request: pytest.FixtureRequest) -> None:
    machine = begin(head, "foreign-dhcp", 210)
    rogue = start_rogue(running, head.wire)
    try:
        eventually(lambda: head.context.inventory.fact("foreign_dhcp"), 30)
        with head.nodes.inside():
            # It hears both, and takes the foreign one: ours is never requested.
            assert replies("eth0", Client(machine.mac, Architecture.BIOS), 2)
        eventually(lambda: head.events("foreign-dhcp", "dhcp.offer"))
        let_time_pass(head, ["foreign-dhcp"])
        answer = why.document(why.why(head.context, "foreign-dhcp")[0])
        if request.config.getoption("--update-golden"):
            keep(head, "foreign-dhcp", "another DHCP server answers on the wire", answer)
        answers["foreign-dhcp"] = answer
        assert (answer["cause"], answer["confidence"]) == ("foreign-dhcp", "high")
        assert rogue.address in answer["sentence"]
    finally:
        rogue.stop()


def test_the_table_in_the_documentation_is_what_was_answered(answers: Answers, request: pytest.FixtureRequest) -> None:
    foreign = Fault("foreign-dhcp", "another DHCP server answers on the wire", "foreign-dhcp", lambda *_: None)
    rows = [(fault, answers[fault.name]) for fault in (*FAULTS, foreign) if fault.name in answers]
    table = page(rows)
    if request.config.getoption("--update-golden"):
        DOCS.write_text(table)
    assert DOCS.read_text() == table, "run this file with --update-golden and look at the difference"
    wrong = [fault.name for fault, answer in rows if answer.get("cause") != fault.cause]
    sure = [name for name in wrong if answers[name].get("confidence") == "high"]
    assert sum(fault.cause is not None for fault, _ in rows) >= 14
    assert len(wrong) <= 1
    assert sure == []


def page(rows: list[tuple[Fault, dict[str, Any]]]) -> str:
    lines = [
        "# Faults, and what `headnode why` says", "",
        "Made by `tests/integration/test_faults.py`, which does each of these to a node of a real head node (DHCP,",
        "TFTP, HTTP, node API, reconcile loop) and asks. Faults of BMCs and consoles are those of",
        "`tests/integration/test_bmc_faults.py`.", "",
        "| fault | first line of the answer | how sure | next |", "|---|---|---|---|",
    ]  # fmt: skip
    for fault, answer in rows:
        sure, next = answer.get("confidence", ""), answer.get("next", "")
        sentence = answer["sentence"].replace("|", "\\|")
        lines.append(f"| {fault.about} | {sentence} | {sure} | {f'`{next}`' if next else ''} |")
    return "\n".join(lines) + "\n"


def test_one_acquires_an_address_still(head: Head, machines: dict[str, Machine]) -> None:
    """After all of this the head node serves."""
    with head.nodes.inside():
        assert acquire("eth0", Client(mac(len(FAULTS)))).address
