"""What a lab is made of, and what is kept for the next one."""

from dataclasses import replace
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError, InvalidField
from headnode.lab import stock
from headnode.lab.machine import Firmware
from headnode.lab.spec import Places, Spec


def test_a_lab_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    spec = Spec("second", (Firmware.BIOS, Firmware.UEFI), memory_mib=2048, disks=2, port=9000, images=False)
    (tmp_path / "lab.json").write_text(spec.json)
    assert Spec.read(tmp_path / "lab.json") == spec


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": "x", "firmware": ["punched-cards"]}', '{"unknown": 1}'])
def test_a_damaged_description_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "lab.json").write_text(text)
    with pytest.raises(HeadnodeError, match=r"lab\.json cannot be read") as caught:
        Spec.read(tmp_path / "lab.json")
    assert "lab down" in caught.value.hint


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": "Two Words"}, "name"),
        ({"name": "../../etc"}, "name"),
        ({"firmware": ()}, "nodes"),
        ({"firmware": (Firmware.BIOS,) * 65}, "nodes"),
        ({"memory_mib": 512}, "memory"),
        ({"disks": 3}, "disks"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_is(wrong: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        replace(Spec(), **wrong)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_every_node_has_a_name_mac_bmc_and_serial_of_its_own() -> None:
    nodes = Spec(firmware=(Firmware.BIOS,) * 64).nodes
    for field in ("name", "mac", "bmc", "serial"):
        assert len({getattr(node, field) for node in nodes}) == 64
    assert (nodes[0].name, nodes[0].mac, nodes[0].bmc) == ("gpu01", "52:54:00:aa:00:01", "10.21.0.11")


def test_no_lab_is_outside_of_the_labs_directory() -> None:
    with pytest.raises(InvalidField):
        Places.of("../elsewhere")


def test_a_build_is_made_once_for_the_same_recipe(tmp_path: Path) -> None:
    made: list[Path] = []

    def build(place: Path, log: Path) -> None:
        made.append(place)
        (place / "content").write_text("whole")

    first = stock.cached(tmp_path, "image", stock.IMAGE, build)
    assert stock.cached(tmp_path, "image", stock.IMAGE, build) == first
    assert len(made) == 1
    other = replace(stock.IMAGE, packages=("less",))
    assert stock.cached(tmp_path, "image", other, build) != first
    assert (first / "content").read_text() == "whole"


def test_an_interrupted_build_is_nobodys_image_and_is_made_anew(tmp_path: Path) -> None:
    def interrupted(place: Path, log: Path) -> None:
        (place / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stock.cached(tmp_path, "image", stock.IMAGE, interrupted)
    assert not stock.place_of(tmp_path, "image", stock.IMAGE).exists()
    place = stock.cached(tmp_path, "image", stock.IMAGE, lambda place, log: (place / "whole").touch())
    assert [path.name for path in place.iterdir()] == ["whole"]


def test_only_the_newest_builds_are_kept(tmp_path: Path) -> None:
    for number in range(stock.KEPT + 3):
        recipe = replace(stock.IMAGE, packages=(f"package{number}",))
        stock.cached(tmp_path, "image", recipe, lambda place, log: None)
    assert len(list(tmp_path.glob("image-*"))) == stock.KEPT


def test_the_image_has_what_the_journeys_of_people_need() -> None:
    wanted = {"sssd-ldap", "libnss-sss", "libpam-sss", "chrony", "nfs-common", "sudo", "openssh-server", "cachefilesd"}
    assert wanted <= set(stock.IMAGE.packages)
