"""What the solver concluded, on the node: files, units, Docker's settings and the kernel's command line."""

import json
from pathlib import Path

import pytest

from headnode.effective import effective
from headnode.site import Archive, Packages, Site
from images.nvidia.stack import Kind, Stack
from images.overlay import Files, Secrets, overlay
from tests.images.test_nvidia import MACHINES, solved
from tests.images.test_overlay import NODE, rich_site

GOLDEN = Path(__file__).parent.parent / "golden/overlay"
ARCHIVES = {name: Archive(uri=f"http://10.20.0.1/{name}", key=f"/etc/headnode/keys/{name}.asc")
            for name in ("nvidia", "docker", "doca", "enroot", "nvidia-toolkit")}  # fmt: skip


def site_with_archives() -> Site:
    site = rich_site()
    packages = site.packages.model_copy(update={"archives": ARCHIVES})
    assert isinstance(packages, Packages)
    return site.model_copy(update={"packages": packages})


def files_of(stack: Stack) -> Files:
    site = site_with_archives()
    settings = {key: found.value for key, found in effective(site, NODE).items()} | {"layout": "default"}
    keys = dict.fromkeys(ARCHIVES, b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    return overlay(site, NODE, settings, Secrets(archive_keys=keys), stack)


@pytest.mark.parametrize(("unit", "machine"), [("cdi", "h100-hgx-nvidia"), ("mig", "a100-hgx-mig")])
def test_a_unit_is_the_one_that_was_looked_at(unit: str, machine: str, request: pytest.FixtureRequest) -> None:
    found = files_of(solved(MACHINES[machine]))[f"/etc/systemd/system/headnode-{unit}.service"].content.decode()
    golden = GOLDEN / f"{unit}.service"
    if request.config.getoption("--update-golden"):
        golden.write_text(found)
    assert found == golden.read_text(), "'pytest --update-golden' if this is what is wanted"


def test_a_node_with_switches_gets_everything_that_was_solved() -> None:
    stack = solved(MACHINES["h100-hgx-debian-nvidia"])
    files = files_of(stack)
    wants = files["/etc/systemd/system/multi-user.target.d/headnode.conf"].content.decode()
    for unit in ("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm", "docker", "headnode-cdi"):
        assert f"Wants={unit}.service" in wants
    pins = files["/etc/apt/preferences.d/headnode"].content.decode()
    assert "Package: nvidia-fabricmanager-580\nPin: version /^([0-9]+:)?580\\.95\\.05-/\nPin-Priority: 1001" in pins
    assert b"blacklist nouveau" in files["/etc/modprobe.d/headnode-gpu.conf"].content
    assert b"nvidia-peermem" in files["/etc/modules-load.d/headnode-gpu.conf"].content
    assert b"user.max_user_namespaces=65536" in files["/etc/sysctl.d/91-headnode-containers.conf"].content
    for name in ("nvidia", "docker", "doca", "enroot"):
        source = files[f"/etc/apt/sources.list.d/headnode-{name}.sources"].content.decode()
        assert f"URIs: http://10.20.0.1/{name}" in source
        assert f"Signed-By: /etc/apt/keyrings/headnode-{name}.asc" in source
        assert files[f"/etc/apt/keyrings/headnode-{name}.asc"].content.startswith(b"-----BEGIN")
    docker = json.loads(files["/etc/docker/daemon.json"].content)
    assert docker["runtimes"] == {"nvidia": {"path": "nvidia-container-runtime", "args": []}}
    assert docker["features"] == {"cdi": True}


def test_a_node_without_switches_masks_fabric_manager() -> None:
    """Its image may have it, for nodes that need it."""
    files = files_of(solved(MACHINES["a100-pcie"]))
    assert files["/etc/systemd/system/nvidia-fabricmanager.service"].content == b""
    assert "/etc/systemd/system/nvidia-fabricmanager.service" not in files_of(solved(MACHINES["a100-hgx"]))


def test_a_node_without_gpus_gets_nothing_of_nvidias() -> None:
    files = files_of(solved(MACHINES["no-gpu"]))
    assert not [path for path in files if "nvidia" in path or "gpu" in path]
    assert "runtimes" not in json.loads(files["/etc/docker/daemon.json"].content)


def test_kernel_arguments_are_the_solvers() -> None:
    stack = solved(MACHINES["four-of-eight"])
    assert stack.values(Kind.KERNEL) == ("modprobe.blacklist=nouveau", "pci=realloc", "iommu=pt")
