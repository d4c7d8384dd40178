"""Whatever the machine and the layout: a plan stays on its disks, fits, and leaves alone what is not its own."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headnode.errors import LayoutRefused
from headnode.site import BUILT_IN, Layout
from headnode.sizes import MIB
from images import disks, fitting
from images.consent import foreign
from images.layouts import Resolved, resolve
from images.plan import deploy_plan
from tests.images.machines import layouts, machines
from tests.images.support import IMAGE, OWNER

CONSENT = st.sampled_from([frozenset[str](), frozenset({"S0"}), frozenset({"S0", "S1", "S2", "S3"})])
often = settings(
    max_examples=100, deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


def made(layout: Layout, facts: dict[str, Any], consent: frozenset[str]) -> Resolved:
    try:
        return resolve("mine", layout, facts, OWNER, consent=consent)
    except LayoutRefused:
        assume(False)
        raise


@often
@given(layouts(), machines(), CONSENT)
def test_a_plan_names_no_device_outside_its_match(layout: Layout, facts: Any, consent: frozenset[str]) -> None:
    try:
        plan = deploy_plan("mine", layout, facts, OWNER, image=IMAGE, settings=dict(BUILT_IN), deployment=1,
                           consent=consent)  # fmt: skip
    except LayoutRefused:
        assume(False)
        raise
    matched = {match.serial for match in layout.disks.values()}
    allowed = {disk["device"] for disk in facts["disks"] if disk["serial"] in matched}
    assert {disk["device"] for disk in plan["disks"]} == allowed
    for step in plan["steps"]:
        text = " ".join([*step.get("argv", ()), *step.get("destroys", ())])
        for device in re.findall(r"/dev/(sd[a-z])", text):
            assert f"/dev/{device}" in allowed, step


@often
@given(layouts(), machines(), CONSENT)
def test_everything_fits_is_aligned_and_nothing_overlaps(layout: Layout, facts: Any, consent: frozenset[str]) -> None:
    for table in made(layout, facts, consent).tables:
        room = fitting.usable(table.disk)
        for part in table.parts:
            if part.kept is None:
                assert part.start % MIB == 0
                assert part.size % MIB == 0
                assert part.start >= room.start
                assert part.start + part.size <= room.end
            assert part.start % table.disk.sector_size == 0
            assert part.start + part.size <= table.disk.size - fitting.gpt_end(table.disk)
            assert part.size > 0
        for one, two in pairwise(table.parts):
            assert one.start + one.size <= two.start
        assert len({part.number for part in table.parts}) == len(table.parts)


@often
@given(layouts(), machines(), CONSENT)
def test_kept_volumes_stay_exactly_where_they_are(layout: Layout, facts: Any, consent: frozenset[str]) -> None:
    resolved = made(layout, facts, consent)
    for table in resolved.tables:
        for held in table.disk.holds:
            volume = next((v for v in layout.volumes if v.name == held.partlabel and v.on == table.name), None)
            if OWNER.purpose(held) == "keep" and volume and volume.keep and (held.type or not consent):
                part = next(part for part in table.parts if part.volume is volume)
                assert part.kept == held
                assert (part.start, part.size, part.device) == (held.start, held.size, held.device)
                assert part.id == held.partuuid


@often
@given(layouts(), machines())
def test_without_consent_nothing_foreign_and_nothing_kept_is_written(layout: Layout, facts: Any) -> None:
    resolved = made(layout, facts, frozenset())
    for table in resolved.tables:
        assert not foreign(table.disk, OWNER)
        keeps = {held.partlabel for held in table.disk.holds if OWNER.purpose(held) == "keep"}
        assert keeps <= {part.volume.name for part in table.parts if part.kept}


@often
@given(layouts(), machines(), CONSENT)
def test_a_plan_carried_out_gives_the_same_plan_again(layout: Layout, facts: Any, consent: frozenset[str]) -> None:
    """Reinstalling is boring: what a plan made is ours, and kept volumes are found where they were put."""
    first = made(layout, facts, consent)
    for table in first.tables:
        entry = next(disk for disk in facts["disks"] if disk["device"] == table.disk.device)
        entry["holds"] = [
            {"device": part.device, "start": part.start, "size": part.size, "partlabel": part.volume.name,
             "type": {"bios-boot": "", "esp": "vfat"}.get(part.volume.type, part.volume.type),
             "partuuid": OWNER.id("keep" if part.volume.keep else "partition", part.volume.name)}
            for part in table.parts
        ]  # fmt: skip
    second = resolve("mine", layout, facts, OWNER)
    for one, two in zip(first.tables, second.tables, strict=True):
        kept = [(p.volume.name, p.start, p.size, p.number) for p in one.parts if p.volume.keep]
        assert kept == [(p.volume.name, p.start, p.size, p.number) for p in two.parts if p.volume.keep]
        assert [p.volume.name for p in two.parts if p.kept] == [p.volume.name for p in two.parts if p.volume.keep]


@pytest.mark.parametrize("flag", ["removable", "read_only", "boot_medium"])
@given(facts=machines())
@settings(deadline=None)
def test_some_disks_are_never_meant(flag: str, facts: Any) -> None:
    for entry in facts["disks"]:
        entry[flag] = True
    layout = Layout.model_validate({"disks": {"any": {}}, "volumes": []})
    with pytest.raises(LayoutRefused):
        disks.assign("mine", layout.disks, disks.from_facts(facts))
