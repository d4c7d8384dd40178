"""Answers for Debian's installer: as debconf reads them, and as they were looked at."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headnode import run
from headnode.errors import LayoutRefused
from images import preseed
from tests.images.answers import inputs

GOLDEN = Path(__file__).parent.parent / "golden/preseed"
DEBIAN: dict[str, Any] = {"os": "debian", "release": "12", "method": "preseed"}
COMBINATIONS = {
    "plain": ("single-disk-bios", "no-gpu", False),
    "rich": ("single-disk-uefi", "t4-debian", True),
    "login": ("login-large", "h100-hgx-debian-nvidia", True),
}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_file_is_the_one_that_was_looked_at(name: str, request: pytest.FixtureRequest) -> None:
    stem, machine, rich = COMBINATIONS[name]
    text, golden = preseed.render(inputs(stem, machine, rich=rich, **DEBIAN)), GOLDEN / f"preseed.cfg-{name}"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text(), "'pytest --update-golden' if this is what is wanted"


@pytest.mark.program("debconf-set-selections")
@pytest.mark.parametrize("name", COMBINATIONS)
def test_debconf_reads_it(name: str, tmp_path: Path) -> None:
    stem, machine, rich = COMBINATIONS[name]
    path = tmp_path / "preseed.cfg"
    path.write_text(preseed.render(inputs(stem, machine, rich=rich, **DEBIAN)))
    said = run.run(["debconf-set-selections", "--checkonly", path])
    assert said.stderr == "", "debconf warns of lines that it does not understand"


def test_what_the_solver_concluded_is_asked_for() -> None:
    text = preseed.render(inputs("single-disk-uefi", "t4-debian", **DEBIAN))
    assert "apt-setup/non-free-firmware boolean true" in text
    (packages,) = [line for line in text.splitlines() if "pkgsel/include" in line]
    assert {"nvidia-kernel-dkms", "nvidia-smi", "linux-headers-amd64", "python3"} <= set(packages.split())


def test_what_partman_cannot_make_is_refused() -> None:
    with pytest.raises(LayoutRefused, match="several disks"):
        preseed.render(inputs("default", "no-gpu", **DEBIAN))


def test_the_installer_is_told_everything_on_its_command_line() -> None:
    site = inputs("single-disk-uefi", "no-gpu", **DEBIAN).site
    words = preseed.arguments("gpu01", site, "http://10.20.0.1/node/v1/seed/s", "ttyS0,115200")
    assert words[:3] == ["auto=true", "priority=critical", "url=http://10.20.0.1/node/v1/seed/s/preseed.cfg"]
    assert {"netcfg/no_default_route=true", "netcfg/get_nameservers=10.20.0.1"} <= {*words}
    assert words[-1] == "---"


def test_the_disk_is_found_by_its_serial_number(request: pytest.FixtureRequest) -> None:
    text, golden = preseed.disk_script(inputs("single-disk-uefi", "no-gpu", **DEBIAN)), GOLDEN / "disk.sh"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text()
    run.run(["sh", "-n", "/dev/stdin"], input=text)
    late = preseed.late(inputs("single-disk-uefi", "no-gpu", **DEBIAN))
    assert "/dev/vda" not in late, "a name that was true once"
    assert '--part-label "$disk" 1 esp' in late
    run.run(["sh", "-n", "/dev/stdin"], input=late)


def test_a_disk_without_serial_number_is_refused() -> None:
    about = inputs("single-disk-uefi", "no-gpu", **DEBIAN)
    (table,) = about.resolved.tables
    nameless = replace(about.resolved, tables=(replace(table, disk=replace(table.disk, serial="")),))
    with pytest.raises(LayoutRefused, match="no serial number"):
        preseed.render(replace(about, resolved=nameless))


def test_packages_of_other_archives_wait_for_their_sources_and_pins() -> None:
    about = inputs("login-large", "h100-hgx-debian-nvidia", **DEBIAN)
    text = preseed.render(about)
    (packages,) = [line for line in text.splitlines() if "pkgsel/include" in line]
    assert "nvidia-fabricmanager-580" not in packages
    assert "nvidia-fabricmanager-580" in preseed.later(about)
    assert preseed.later(inputs("single-disk-uefi", "t4-debian", **DEBIAN)) == ()


def test_what_fails_at_the_end_stops_the_installer_instead_of_beginning_anew(tmp_path: Path) -> None:
    """The real text in a real shell, with programs that note their call; one of them fails."""
    calls, late = tmp_path / "calls", preseed.late(inputs("single-disk-uefi", "no-gpu", **DEBIAN))
    (tmp_path / "headnode-disk").write_text("/dev/sdb\n")
    text = late.replace("/tmp/headnode-disk", str(tmp_path / "headnode-disk")).replace("/target/root", str(tmp_path))
    for failing in ("", "wget", "in-target"):
        calls.write_text("")
        for name in ("wget", "in-target"):
            (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\nexit {int(name == failing)}\n')
            (tmp_path / name).chmod(0o755)
        done = run.run(["sh", "-c", text], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
        assert (done.returncode == 0) == (failing == "")
    assert "--disk-id /dev/sdb " in calls.read_text()
    assert "finish" not in calls.read_text(), "the first failure ends it"
