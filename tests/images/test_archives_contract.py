"""What the solver names is in Debian's archive, and apt holds what it is told to hold: asked from apt itself."""

import subprocess
from pathlib import Path

import pytest

from images.nvidia.rules import Archive, rules
from images.sources import Source, preferences
from tests.images.aptworld import Apt, debian

pytestmark = pytest.mark.program("apt-get", "apt-cache", "dpkg-deb")


def emitted(archive: Archive) -> set[str]:
    """Every package that a plan for this archive may hold, on amd64."""
    arch = "amd64"
    found = {archive.headers.format(arch=arch)} if archive.headers else set()
    for number, branch in archive.branches.items():
        for names in (branch.open, branch.proprietary, branch.common, branch.fabric, branch.fabric5, branch.imex):
            found |= {name.format(branch=number) for name in names}
    return found | {*archive.dcgm, *archive.toolkit, *archive.subnet_manager}


def test_every_debian_package_of_a_plan_exists(tmp_path: Path) -> None:
    (archive,) = [found for found in rules().archives if (found.os, found.source) == ("debian", "distro")]
    containers = rules().containers
    wanted = emitted(archive) | set(containers.docker["debian"].packages) | set(containers.enroot_needs.packages)
    wanted |= {"rdma-core", "ibverbs-providers", "infiniband-diags"}
    apt = debian(tmp_path, *archive.components)
    known = set(apt.run("apt-cache", "pkgnames").split())
    assert wanted - known == set()
    # A release moves within its branch with Debian's updates; the branch must be the one that rules.yaml says.
    for number, branch in archive.branches.items():
        assert branch.version.startswith(f"{number}.")
        (kernel,) = [name for name in branch.proprietary if name.endswith("-dkms")]
        said = apt.run("apt-cache", "policy", kernel)
        assert f"Candidate: {number}." in said, (number, said)


def test_names_of_other_archives_say_where_and_when_they_were_read() -> None:
    for archive in rules().archives:
        assert archive.sources
        assert all(rules().sources[name].read for name in archive.sources)
        assert (archive.names == "archive") == ((archive.os, archive.source) == ("debian", "distro"))


def test_apt_installs_the_release_that_is_held_or_nothing(tmp_path: Path) -> None:
    """Fabric Manager of another release than the driver's must not be a candidate at all."""
    repository = tmp_path / "repository"
    repository.mkdir()
    for name, version in (("fm", "580.1.1-1"), ("fm", "1:580.2.2-1"), ("driver", "580.1.1-1"), ("driver", "580.11.1-1"),
                          ("gone", "580.2.2-1")):  # fmt: skip
        package(repository, name, version)
    index = subprocess.run(
        ["dpkg-scanpackages", "--multiversion", "."], cwd=repository, capture_output=True, check=True
    )
    (repository / "Packages").write_bytes(index.stdout)
    source = Source((f"file:{repository}",), ("./",), ())
    apt = Apt.of(
        tmp_path / "apt",
        [source],
        trusted=True,
        preferences=preferences(["fm=580.1.1", "driver=580.1.1", "gone=580.1.1"]),
    )
    candidates = {name: apt.run("apt-cache", "policy", name).split("Candidate: ")[1].split()[0]
                  for name in ("fm", "driver", "gone")}  # fmt: skip
    assert candidates == {"fm": "580.1.1-1", "driver": "580.1.1-1", "gone": "(none)"}


def package(repository: Path, name: str, version: str) -> None:
    place = repository / f"{name}-{version.replace(':', '_')}"
    (place / "DEBIAN").mkdir(parents=True)
    (place / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: test <t@example.org>\nDescription: test\n"
    )
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", place, f"{place}.deb"], check=True, capture_output=True
    )
