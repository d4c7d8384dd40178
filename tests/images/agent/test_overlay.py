"""A node's own files: their modes and owners, and that none of them lands outside."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from images.agent import rescue
from images.agent.overlay import BadFile, write_all


def file(path: Any, content: str = "x", **more: Any) -> dict[str, Any]:
    return {"path": path, "content_base64": base64.b64encode(content.encode()).decode(), **more}


def test_files_with_their_modes(tmp_path: Path) -> None:
    files = [file("/etc/a/b", "one", mode="0600"), file("etc/c", "two", mode=0o755), file("/etc/d", "three")]
    assert write_all(files, tmp_path) == 3
    assert (tmp_path / "etc/a/b").read_text() == "one"
    modes = [(tmp_path / name).stat().st_mode & 0o7777 for name in ("etc/a/b", "etc/c", "etc/d")]
    assert modes == [0o600, 0o755, 0o644]
    assert not list(tmp_path.rglob("*.headnode"))


def test_a_second_time_replaces(tmp_path: Path) -> None:
    write_all([file("/etc/x", "old", mode="0644")], tmp_path)
    write_all([file("/etc/x", "new", mode="0600")], tmp_path)
    assert (tmp_path / "etc/x").read_text() == "new"
    assert (tmp_path / "etc/x").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "path", ["", "/", "../etc/passwd", "/etc/../../x", "/etc/", None, 5, "a\0b", "..", "/etc/x/.."]
)
def test_paths_that_name_no_file_inside(tmp_path: Path, path: Any) -> None:
    with pytest.raises(BadFile):
        write_all([file("/etc/first"), file(path)], tmp_path)
    assert not (tmp_path / "etc/first").exists(), "all are looked at before the first is written"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mode": "rwx"}, "not a file mode"),
        ({"mode": "10000"}, "not a file mode"),
        ({"mode": None}, "not a file mode"),
        ({"owner": "nobody-here"}, "not an account of the new system"),
        ({"content_base64": "!"}, "not base64"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadFile, match=reason):
        write_all([{**file("/etc/x"), **change}], tmp_path)


@pytest.mark.root
def test_owners_are_those_of_the_new_system(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nsssd:x:977:966::/:/bin/false\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nsssd:x:966:\nmail:x:8:\n")
    write_all([file("/a", owner="sssd:sssd"), file("/b", owner="sssd:mail"), file("/c", owner="7:9")], tmp_path)
    found = [((tmp_path / name).stat().st_uid, (tmp_path / name).stat().st_gid) for name in "abc"]
    assert found == [(977, 966), (977, 8), (7, 9)]


@pytest.mark.root
def test_a_link_in_the_image_cannot_lead_a_write_out_of_it(tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    (target / "etc").mkdir(parents=True)
    (target / "etc/evil").symlink_to(outside)
    (target / "etc/up").symlink_to("../../outside")
    (target / "run").mkdir()
    (target / "var").mkdir()
    (target / "var/run").symlink_to("/run")
    files = [file("/etc/evil/x"), file("/etc/up/y"), file("/var/run/z")]
    argv = [sys.executable, "-m", "images.agent.overlay", str(target)]
    done = subprocess.run(argv, input=json.dumps(files), capture_output=True, text=True, check=False)
    assert list(outside.iterdir()) == []
    assert done.returncode == 1, "the first link points to nothing inside"
    files = [file("/var/run/z")]
    done = subprocess.run(argv, input=json.dumps(files), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 files\n")
    assert (target / "run/z").exists()
    assert not Path("/run/z").exists()


def test_nonsense_on_standard_input_is_one_sentence() -> None:
    argv = [sys.executable, "-m", "images.agent.overlay", "/nowhere"]
    done = subprocess.run(argv, input="{", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_rescued_machine_takes_keys_and_nothing_else() -> None:
    files = [file("/root/.ssh/authorized_keys"), file("/etc/shadow"), file("/etc/ssh/ssh_host_ed25519_key")]
    assert [kept["path"] for kept in rescue.wanted(files)] == [
        "/root/.ssh/authorized_keys",
        "/etc/ssh/ssh_host_ed25519_key",
    ]
