"""Answers for Ubuntu's installer: against its own schema, against our second look, and as they were looked at."""

import ast
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from headnode.errors import HeadnodeError
from images import autoinstall
from images.autoinstallchecks import problems, refuse_wrong
from images.installer import SOURCES, agent_file, refuse_small_memory
from tests.images.answers import PLANNED, SESSION, UBUNTU, combinations, inputs

GOLDEN = Path(__file__).parent.parent / "golden/autoinstall"
COMBINATIONS = combinations()
# Case → the machine it is looked at with, and whether at a site with everything.
LOOKED_AT = {
    "default": ("a100-hgx", False), "gpu-nvme-reinstall": ("h100-hgx-nvidia", True), "raid1-uefi": ("no-gpu", False),
    "single-disk-bios": ("v100-pcie", True),
}  # fmt: skip


@pytest.fixture(scope="session")
def schema() -> dict[str, Any]:
    """Ubuntu's own; the Makefile says where it is."""
    place = os.environ.get("AUTOINSTALL_SCHEMA", "")
    if not place:
        reason = "this test needs AUTOINSTALL_SCHEMA, the path of Ubuntu's autoinstall schema"
        pytest.fail(reason, pytrace=False) if os.environ.get("CI") else pytest.skip(reason)
    return dict(json.loads(Path(place).read_text()))


def test_there_are_enough_combinations() -> None:
    assert len(COMBINATIONS) >= 30
    assert {stem for stem, _, _ in COMBINATIONS} == set(PLANNED)
    assert {machine for _, machine, _ in COMBINATIONS} == set(UBUNTU)


@pytest.mark.parametrize(("stem", "machine", "rich"), COMBINATIONS)
def test_a_document_is_valid_twice(stem: str, machine: str, rich: bool, schema: dict[str, Any]) -> None:
    about = inputs(stem, machine, rich=rich)
    text = autoinstall.render(about, "user-data")
    assert text.startswith("#cloud-config\n")
    found = yaml.safe_load(text)["autoinstall"]
    jsonschema.validate(found, schema)
    assert set(found) <= set(schema["properties"]), "what Ubuntu does not know it ignores without a word"
    assert list(problems(found, about.facts)) == []
    assert set(about.stack.packages) <= set(found["packages"])


@pytest.mark.parametrize(("stem", "machine", "rich"), [(stem, *how) for stem, how in LOOKED_AT.items()])
def test_a_document_is_the_one_that_was_looked_at(
    stem: str, machine: str, rich: bool, request: pytest.FixtureRequest
) -> None:
    about = inputs(stem, machine, rich=rich)
    for name in autoinstall.FILES if stem == "default" else ("user-data",):
        text = re.sub(r"content: \S+(\n    \S+)*", "content: (the agent)", autoinstall.render(about, name))
        golden = GOLDEN / (name if stem == "default" else f"{name}-{stem}")
        if request.config.getoption("--update-golden"):
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(text)
        assert text == golden.read_text(), "'pytest --update-golden' if this is what is wanted"


def test_the_medium_is_not_fetched_twice_and_no_secret_is_an_argument_of_the_system() -> None:
    head = "http://10.20.0.1"
    words = autoinstall.arguments(head, f"{head}/node/v1/seed/s", "ubuntu-24.04@1", "ttyS0,115200")
    assert "cloud-config-url=/dev/null" in words
    assert "url=http://10.20.0.1/images/ubuntu-24.04@1/media.iso" in words
    assert "ds=nocloud;s=http://10.20.0.1/node/v1/seed/s/" in words
    assert words[-1] == "---", "what follows the dashes would be the installed system's too"
    assert "console=tty0" not in autoinstall.arguments("http://h", "http://h/s", "m@1", None)


def wrong(change: Callable[[dict[str, Any]], None], stem: str = "single-disk-uefi") -> list[str]:
    about = inputs(stem, "no-gpu")
    document = autoinstall.document(about)
    change(document)
    return list(problems(document, about.facts))


def action(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in document["storage"]["config"] if one["id"] == name)
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["storage"]["config"].reverse(), "which is not made before it"),
        (lambda d: action(d, "volume-root").update(device="disk-gone"), "volume-root needs disk-gone"),
        (lambda d: d["storage"]["config"].append(action(d, "volume-root")), "volume-root is made twice"),
        (lambda d: action(d, "volume-root").update(size=1 << 50), "disk-system needs"),
        (lambda d: action(d, "volume-var").update(offset=4096), "before the end of what is in front of it"),
        (lambda d: action(d, "disk-system").update(serial="OTHER"), "a disk that this node does not have"),
        (lambda d: action(d, "volume-esp").update(grub_device=False), "no partition is the place of the boot loader"),
        (lambda d: action(d, "disk-system").update(grub_device=True), "does not use"),
        (lambda d: action(d, "mount-root").update(path="/home"), "the root file system is mounted nowhere"),
        (lambda d: action(d, "mount-tmp").update(path="/var"), "/var is mounted twice"),
        (lambda d: d.pop("user-data"), "neither identity nor user-data"),
        (lambda d: d["user-data"].update(users=[{"name": "Ada L"}]), "'Ada L' is no name for a user"),
        (lambda d: d.pop("storage"), "there is no storage configuration"),
    ],
)
def test_the_second_look_sees_what_a_schema_cannot(change: Callable[[dict[str, Any]], None], words: str) -> None:
    assert any(words in problem for problem in wrong(change)), wrong(change)


def test_a_wrong_document_is_never_given_out() -> None:
    about = inputs("single-disk-uefi", "no-gpu")
    with pytest.raises(HeadnodeError, match="the autoinstall document of gpu01 would fail: there is no storage"):
        refuse_wrong({}, about.facts, "gpu01")


def test_memory_is_compared_before_anything_starts() -> None:
    refuse_small_memory("gpu01", {"memory_bytes": 8 << 30}, 5 << 30, "ubuntu-24.04@1")
    refuse_small_memory("gpu01", {}, 5 << 30, "ubuntu-24.04@1")
    with pytest.raises(HeadnodeError, match=r"gpu01 has 4\.0 GiB of memory, .* needs 5\.0 GiB"):
        refuse_small_memory("gpu01", {"memory_bytes": 4 << 30}, 5 << 30, "ubuntu-24.04@1")


def test_the_agent_is_one_file_that_runs(tmp_path: Path) -> None:
    content = agent_file("http://10.20.0.1", SESSION)
    assert content == agent_file("http://10.20.0.1", SESSION), "the same agent is the same file"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert json.loads(archive.read("agent/settings.json")) == {
            "url": "http://10.20.0.1", "session": SESSION, "packages": "",
        }  # fmt: skip
    path = tmp_path / "agent.pyz"
    path.write_bytes(content)
    done = subprocess.run([sys.executable, "-I", path, "write", tmp_path / "gone"], input=b"[]", capture_output=True)
    assert done.returncode == 1
    assert b"No such file" in done.stderr


@pytest.mark.program("gpg")
def test_a_binary_key_is_handed_over_as_text() -> None:
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    text = autoinstall.armoured(keyring.read_bytes())
    shown = subprocess.run(
        ["gpg", "--show-keys", "--with-colons"], input=text.encode(), capture_output=True, check=True
    )
    assert b"pub:" in shown.stdout
    assert autoinstall.armoured(text.encode()) == text


@pytest.mark.parametrize("path", sorted(SOURCES.glob("*.py")), ids=lambda path: path.name)
def test_the_agent_is_python_that_ubuntu_22_04_reads(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 10))
