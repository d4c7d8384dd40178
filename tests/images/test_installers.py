"""Ubuntu's and Debian's installers must end with the table that our own plan makes."""

from dataclasses import replace
from typing import Any

import pytest

from headnode.errors import LayoutRefused
from images import curtin, partman
from images.layouts import Resolved, Table, resolve
from images.plan import TYPES, sfdisk_script
from tests.images.support import CASES, OWNER, facts_of, layout_of, read

PLANNED = [path for path in sorted(CASES.glob("*.yaml")) if "steps" in read(path)["expect"]]


def resolved(stem: str) -> Resolved:
    case = read(CASES / f"{stem}.yaml")
    name, layout = layout_of(case["layout"])
    consent = frozenset(case.get("consent", ()))
    return resolve(name, layout, facts_of(case["facts"]), OWNER, consent=consent, deployed=case.get("deployed"))


def script_by_curtin(actions: list[dict[str, Any]], disk: dict[str, Any], label_id: str, sector: int) -> str:
    """What curtin's version 2 hands to sfdisk for these actions (block_meta_v2), with our header."""
    lines = ["label: gpt", f"label-id: {label_id}", "unit: sectors", ""]
    for action in actions:
        if action["type"] == "partition" and action["device"] == disk["id"]:
            lines.append(
                f"{action['number']} : start={action['offset'] // sector}, size={action['size'] // sector}, "
                f'type={action["partition_type"].upper()}, uuid={action["uuid"]}, name="{action["partition_name"]}"'
            )
    return "\n".join(lines) + "\n"


def finished(table: Table) -> str:
    """Our own table after its last step, when new kept volumes have been sealed."""
    text = sfdisk_script(table)
    for part in table.parts:
        if part.volume.keep:
            text = text.replace(part.id, OWNER.id("keep", part.volume.name))
    return text


@pytest.mark.parametrize("stem", [path.stem for path in PLANNED])
def test_curtin_writes_the_same_table(stem: str) -> None:
    found = resolved(stem)
    actions = curtin.config(found)
    disks = [action for action in actions if action["type"] == "disk"]
    assert [disk["id"] for disk in disks] == [f"disk-{table.name}" for table in found.tables]
    for disk, table in zip(disks, found.tables, strict=True):
        assert script_by_curtin(actions, disk, table.id, table.disk.sector_size) == finished(table)
        kept = {part.volume.name for part in table.parts if part.kept}
        assert bool(disk.get("preserve")) == bool(kept)


@pytest.mark.parametrize("stem", [path.stem for path in PLANNED])
def test_curtin_formats_and_mounts_the_same(stem: str) -> None:
    found = resolved(stem)
    actions = {action["id"]: action for action in curtin.config(found)}
    for action in actions.values():
        references = [action.get("device"), action.get("volume"), action.get("volgroup"), *action.get("devices", ())]
        order = list(actions)
        for reference in filter(None, references):
            assert order.index(reference) < order.index(action["id"]), "curtin makes things in the order given"
    formatted = {a["id"].removeprefix("fs-"): a for a in actions.values() if a["type"] == "format"}
    for place in found.places:
        if place.volume.type in ("ext4", "xfs"):
            action = formatted[place.volume.name]
            assert action["preserve"] == place.kept
            assert place.kept or action["uuid"] == OWNER.id("fs", place.volume.name)
        if place.volume.mount:
            assert actions[f"mount-{place.volume.name}"]["path"] == place.volume.mount
    sizes = {a["name"]: a["size"] for a in actions.values() if a["type"] == "lvm_partition"}
    groups = found.definition.lvm
    assert sizes == {p.volume.name: f"{p.size}B" for p in found.places if p.volume.on in groups}


def test_a_volume_that_curtin_made_is_kept_by_the_next_deployment() -> None:
    found = resolved("keep-fresh")
    case = read(CASES / "keep-fresh.yaml")
    name, layout = layout_of(case["layout"])
    facts = facts_of(case["facts"])
    facts["disks"][0]["holds"] = [
        {"device": f"/dev/vda{a['number']}", "start": a["offset"], "size": a["size"], "partlabel": a["partition_name"],
         "partuuid": a["uuid"], "type": layout.volumes[a["number"] - 1].type.replace("bios-boot", "")}
        for a in curtin.config(found) if a["type"] == "partition"
    ]  # fmt: skip
    again = resolve(name, layout, facts, OWNER)
    assert [part.volume.name for part in again.tables[0].parts if part.kept] == ["data"]


def test_partmans_last_words_give_labels_and_identifiers() -> None:
    found = resolved("single-disk-uefi")
    text = "\n".join(partman.late_commands(found))
    for part in found.tables[0].parts:
        assert f"--part-uuid /dev/vda {part.number} {part.id}" in text
        assert f"--part-label /dev/vda {part.number} {part.volume.name}" in text
        assert f"--part-type /dev/vda {part.number} {TYPES[part.volume.type]}" in text


@pytest.mark.parametrize(
    ("stem", "words"),
    [
        ("default", "several disks"),
        ("lvm", "several disks"),
        ("keep-fresh", "kept volumes"),
        ("swap-file", "swap files"),
        ("sizes-bounds", "room left over"),
    ],
)
def test_what_partman_cannot_do_is_refused(stem: str, words: str) -> None:
    with pytest.raises(LayoutRefused, match=f"Debian's installer cannot make {words}"):
        partman.recipe(resolved(stem))


def test_every_type_has_a_partition_type() -> None:
    assert len(set(TYPES.values())) == len(TYPES) - 1, "ext4 and xfs share theirs"


def test_a_disk_without_a_serial_number_is_not_left_to_ubuntus_installer() -> None:
    table = resolved("single-disk-uefi").tables[0]
    nameless = replace(table, disk=replace(table.disk, serial=""))
    with pytest.raises(LayoutRefused, match="has no serial number"):
        curtin.disk(nameless, grub=False)
