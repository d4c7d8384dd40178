"""A plan is understood as a whole, or refused as a whole."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from images.agent.errors import BadPlan
from images.agent.plan import belongs, parse_plan

SHA = "0" * 64
GOOD: dict[str, Any] = {
    "version": 1,
    "node": "n1",
    "deployment": 7,
    "disks": [{"name": "system", "device": "/dev/vda", "serial": "A1", "wwn": None, "size": 1 << 30}],
    "steps": [
        {"name": "look", "do": "check-disks"},
        {"name": "partition", "do": "run", "argv": ["sfdisk", "/dev/vda"], "input": "x", "destroys": ["/dev/vda"]},
        {"name": "format", "do": "run", "argv": ["mkfs", "/dev/vda1"], "destroys": ["/dev/vda1"]},
        {"name": "image", "do": "image", "url": "/images/gpu@3/image.tar.zst", "sha256": SHA, "size": 5},
        {"name": "own", "do": "overlay", "target": "/target"},
        {"name": "grub", "do": "chroot", "argv": ["grub-install"], "target": "/target"},
    ],
}


def changed(step: int, **values: Any) -> dict[str, Any]:
    plan = copy.deepcopy(GOOD)
    plan["steps"][step].update(values)
    return plan


def test_a_good_plan() -> None:
    plan = parse_plan(GOOD)
    assert [step.do for step in plan.steps] == ["check-disks", "run", "run", "image", "overlay", "chroot"]
    assert plan.disks[0].serial == "A1"
    assert plan.steps[1].input == "x"


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({**GOOD, "version": 2}, "version 2"),
        ({}, "version None"),
        ({**GOOD, "steps": None}, "no list of steps"),
        ({**GOOD, "disks": {}}, "no list of disks"),
        ({**GOOD, "steps": ["rm -rf /"]}, "not a JSON object"),
        ({**GOOD, "disks": [{"device": "vda", "size": 1}]}, "which is no device"),
        ({**GOOD, "disks": [{"device": "/dev/../etc/passwd", "size": 1}]}, "which is no device"),
        ({**GOOD, "disks": [{"device": "/dev/vda"}]}, "nothing of the size"),
        (changed(1, do="shell"), "unknown step: 'shell'"),
        (changed(1, do=None), "unknown step"),
        (changed(1, argv="rm -rf /"), "not a list of words"),
        (changed(1, argv=[]), "not a list of words"),
        (changed(1, argv=["a", 1]), "not a list of words"),
        (changed(1, argv=["a\0b"]), "not a list of words"),
        (changed(1, argv=[""]), "has no program"),
        (changed(1, input=["x"]), "the input is not text"),
        (changed(1, destroys="/dev/vda"), "not a list of devices"),
        (changed(1, destroys=["/dev/vdb"]), "not among the plan's disks"),
        (changed(1, destroys=["/dev/vdaa"]), "not among the plan's disks"),
        (changed(0, do="overlay"), "before the disks were checked"),
        (changed(3, url="http://elsewhere/image"), "not a path on the head node"),
        (changed(3, url="//elsewhere/image"), "not a path on the head node"),
        (changed(3, url="/a b\r\nHost: x"), "not a path on the head node"),
        (changed(3, sha256="abc"), "is not one"),
        (changed(3, sha256="g" * 64), "is not one"),
        (changed(3, size="5"), "not a number of bytes"),
        (changed(3, size=True), "not a number of bytes"),
        (changed(3, target="/"), "the target '/'"),
        (changed(4, target="/target/../etc"), "the target"),
        (changed(5, target=""), "the target ''"),
    ],
)
def test_a_bad_plan_is_refused_with_its_reason(plan: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadPlan, match=reason):
        parse_plan(plan)


@pytest.mark.parametrize(
    ("device", "disk", "yes"),
    [
        ("/dev/vda", "/dev/vda", True), ("/dev/vda3", "/dev/vda", True), ("/dev/vdaa", "/dev/vda", False),
        ("/dev/nvme0n1p2", "/dev/nvme0n1", True), ("/dev/nvme0n12", "/dev/nvme0n1", False),
        ("/dev/nvme0n1p", "/dev/nvme0n1", False), ("/dev/vdap1", "/dev/vda", False), ("/dev/vdb", "/dev/vda", False),
    ],
)  # fmt: skip
def test_partitions_belong_to_their_disk(device: str, disk: str, yes: bool) -> None:
    assert belongs(device, disk) is yes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["version", "disks", "steps", "node"]), JSON), JSON, JSON)
def test_anything_at_all_is_understood_or_refused(plan: dict[str, Any], step: Any, disk: Any) -> None:
    for candidate in (plan, {**GOOD, "steps": [step]}, {**GOOD, "disks": [disk]}, {**GOOD, **plan}):
        with contextlib.suppress(BadPlan):
            parse_plan(candidate)
