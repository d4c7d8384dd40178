"""A Debian image with the real NVIDIA driver: the solver's packages, compiled for the image's kernel."""

import subprocess
from pathlib import Path

import pytest

from headnode.workflows import images
from headnode.workflows.context import Context
from tests.support import headnode

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.timeout(3600),
    pytest.mark.program("mmdebstrap", "zstd", "modinfo"),
]
T4 = {"vendor": "10de", "device": "1eb8", "address": "0000:01:00.0", "bars_assigned": True}


def test_an_image_with_the_real_driver(root: Path, context: Context, tmp_path: Path) -> None:
    assert headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes").code == 0
    node = context.inventory.nodes(["gpu01"])[0]
    with context.inventory.change("tester", "a test") as change:
        change.remember_hardware(node, {"gpus": [T4], "disks": []})
    said: list[str] = []
    built = images.build(context, "gpu", profile=None, kernel="generic", progress=said.append)
    assert any("driver 535, proprietary modules" in line for line in said)
    kernel = built.manifest["kernel"]
    assert f"lib/modules/{kernel}/updates/dkms/nvidia-current.ko" in " ".join(built.manifest["modules"])
    installed = {package["name"] for package in built.packages}
    assert {"nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "nvidia-persistenced"} <= installed
    assert not {"xserver-xorg-core", "nvidia-driver"} & installed, "a node has no display"
    archive = built.directory / "image.tar.zst"
    names = subprocess.run(
        ["tar", "--list", "--zstd", "-f", archive], capture_output=True, text=True, check=True
    ).stdout
    assert "mok.key" not in names
    (member,) = [n for n in names.splitlines() if n.endswith(f"/{kernel}/updates/dkms/nvidia-current.ko")]
    with (tmp_path / "nvidia.ko").open("wb") as module:
        subprocess.run(["tar", "--extract", "--to-stdout", "--zstd", "-f", archive, member], stdout=module, check=True)
    magic = subprocess.run(
        ["modinfo", "-F", "vermagic", tmp_path / "nvidia.ko"], capture_output=True, text=True, check=True
    ).stdout
    assert magic.split()[0] == kernel
    print(f"{built.reference}: {built.size / 1e6:.0f} MB, {len(installed)} packages, kernel {kernel}")  # noqa: T201
