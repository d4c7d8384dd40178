"""Ubuntu's and Debian's installers must end with the table that our own plan makes."""

import re
from typing import Any

import pytest

from headnode.errors import LayoutRefused
from headnode.sizes import MIB
from images import curtin, partman
from images.layouts import Resolved, resolve
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


@pytest.mark.parametrize("stem", [path.stem for path in PLANNED])
def test_curtin_writes_the_same_table(stem: str) -> None:
    found = resolved(stem)
    actions = curtin.config(found)
    disks = [action for action in actions if action["type"] == "disk"]
    assert [disk["id"] for disk in disks] == [f"disk-{table.name}" for table in found.tables]
    for disk, table in zip(disks, found.tables, strict=True):
        assert script_by_curtin(actions, disk, table.id, table.disk.sector_size) == sfdisk_script(table)
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


def evaluate(recipe: str, free: int) -> list[dict[str, Any]]:
    """What partman-auto makes of a recipe on this many megabytes: minimum first, then the rest by priority."""
    _, _, body = recipe.replace("\\\n", " ").partition("::")
    entries = []
    for text in re.split(r"\s\.(?:\s|$)", body):
        if not (words := text.split()):
            continue
        low, priority, high = (int(word) for word in words[:3])
        values = {key: value.strip() for key, value in re.findall(r"(\S+)\{ ?([^}]*)\}", text)}
        entries.append({"size": low, "priority": priority - low, "max": high, "fs": words[3], **values})
    left = free - sum(entry["size"] for entry in entries)
    assert left >= 0, "partman would not take this recipe"
    for entry in entries:
        if entry["priority"]:
            entry["size"] += left if entry["max"] == -1 else min(left, entry["max"] - entry["size"])
    return entries


@pytest.mark.parametrize("stem", ["single-disk-bios", "single-disk-uefi", "login-small", "login-large", "sizes-bounds"])
def test_partman_makes_the_same_table_as_far_as_it_can(stem: str) -> None:
    found = resolved(stem)
    (table,) = found.tables
    usable = (table.disk.size - 2 * MIB) // partman.MEGABYTE
    entries = evaluate(partman.recipe(found), usable)
    assert len(entries) == len(table.parts)
    for entry, part in zip(entries, table.parts, strict=True):
        difference = part.size - entry["size"] * partman.MEGABYTE
        if entry["max"] != -1:
            assert 0 <= difference < partman.MEGABYTE
        assert abs(difference) <= len(entries) * partman.MEGABYTE
        assert entry["$iflabel"] == "gpt"
        mount = part.volume.mount if part.volume.type != "esp" else None
        assert entry.get("mountpoint") == mount
        if part.volume.type in ("ext4", "xfs"):
            assert entry["filesystem"] == part.volume.type
        for option in part.volume.options if mount else ():
            assert entry[f"options/{option}"] == option


def test_partmans_last_words_give_labels_and_identifiers() -> None:
    found = resolved("single-disk-uefi")
    text = "\n".join(partman.late_commands(found))
    for part in found.tables[0].parts:
        assert f"--part-uuid /dev/vda {part.number} {part.id}" in text
        assert f"--part-label /dev/vda {part.number} {part.volume.name}" in text


@pytest.mark.parametrize(
    ("stem", "words"),
    [
        ("default", "several disks"),
        ("lvm", "several disks"),
        ("keep-fresh", "kept volumes"),
        ("swap-file", "swap files"),
    ],
)
def test_what_partman_cannot_do_is_refused(stem: str, words: str) -> None:
    with pytest.raises(LayoutRefused, match=f"Debian's installer cannot make {words}"):
        partman.recipe(resolved(stem))


def test_every_type_has_a_partition_type() -> None:
    assert len(set(TYPES.values())) == len(TYPES) - 1, "ext4 and xfs share theirs"
