"""Every rule has a recorded case of its own, and names it; whatever is not there is not blamed."""

import re
from pathlib import Path

import pytest

from headnode.cli import COMMANDS
from headnode.why.case import Confidence, View
from headnode.why.chain import chain
from headnode.why.engine import explain
from headnode.why.rules import NAMES, RULES
from tests.headnode.why.recorded import CASES, case_of, read
from tests.images.support import CASES as LAYOUTS
from tests.images.support import read as read_layout

FILES = sorted(CASES.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_case_is_named(path: Path) -> None:
    document = read(path)
    answer = explain(case_of(document))
    expect = document["expect"]
    found = answer.finding
    assert (found.cause if found else None) == expect.get("cause"), answer.sentence
    if found is None:
        assert answer.sentence.startswith("nothing wrong")
        return
    assert found.confidence is Confidence(expect["confidence"]), found.sentence
    assert found.sentence == expect["sentence"]
    assert next((step.stage.value for step in answer.chain if not step.reached), None) == expect.get("missing")


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_has_a_case_that_it_alone_can_explain(name: str) -> None:
    """Of the recorded cases, at least one is answered by this rule, with the first line."""
    rule = RULES[NAMES.index(name)]
    answered = []
    for path in FILES:
        case = case_of(read(path))
        own = rule(View(case, chain(case)))
        if own is not None and explain(case).finding == own:
            answered.append(path.stem)
    assert answered, f"no case in {CASES} is answered by the rule {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_other_rule_is_as_sure_of_something_else(path: Path) -> None:
    """Two causes that are both certain would be one too many."""
    answer = explain(case_of(read(path)))
    if answer.finding and answer.finding.confidence is Confidence.HIGH:
        also = set(read(path)["expect"].get("also_sure", []))
        assert {other.cause for other in answer.others if other.confidence is Confidence.HIGH} <= also


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_next_step_is_a_command(path: Path) -> None:
    found = explain(case_of(read(path))).finding
    if found is None:
        return
    program, *words = found.next.split()
    assert program in ("headnode", "nft", "arping")
    if program == "headnode":
        assert words[0] in COMMANDS
    assert not re.search(r"\{(?!node\})", found.next)


REFUSALS = sorted(path for path in LAYOUTS.glob("refuse-*.yaml"))


@pytest.mark.parametrize("path", REFUSALS, ids=lambda path: path.stem)
def test_every_refusal_of_a_disk_is_understood(path: Path) -> None:
    """The sentences are those that planning really gives, so a changed sentence is noticed here."""
    refused = read_layout(path)["expect"]["refused"]
    document = read(CASES / "disk-foreign.yaml")
    document["node"]["reason"] = refused
    found = explain(case_of(document)).finding
    assert found is not None
    if path.stem not in ("refuse-device-name",):
        assert found.cause in ("disk-not-found", "disk-ambiguous", "disk-too-small", "disk-foreign", "layout-firmware")
    small = {"refuse-too-small-for-match", "refuse-fixed-too-large", "refuse-image-too-large", "refuse-xfs-too-small"}
    if path.stem in small:
        assert found.cause == "disk-too-small"
    if path.stem in ("refuse-two-disks", "refuse-raid1-three", "refuse-same-serial"):
        assert found.cause == "disk-ambiguous"
    if path.stem in ("refuse-no-disk", "refuse-none-fits", "refuse-read-only", "refuse-removable"):
        assert found.cause == "disk-not-found"
