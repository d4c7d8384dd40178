"""Images with a driver: what the recipe says of archives and pins, and that modules were really compiled."""

import io
import tarfile
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.site import BUILT_IN
from images import tarball
from images.bootstrap import sources_for
from images.build import refuse_without_modules, replacements
from images.recipes import Recipe, image_recipe, mmdebstrap_argv
from images.sources import Source, to_text
from images.tarball import Seen
from tests.images.test_nvidia import MACHINES, solved

KERNEL = "6.1.0-49-amd64"
NVIDIA = Source(("http://10.20.0.1/nvidia",), ("./",), (), "/etc/headnode/keys/nvidia.asc")


def recipe(machine: str, **more: object) -> Recipe:
    settings = {**dict(BUILT_IN), **MACHINES[machine].get("settings", {}), "packages": ()}
    return image_recipe(settings, stack=solved(MACHINES[machine]), **more)  # type: ignore[arg-type]


def test_pins_are_in_place_before_what_they_are_about() -> None:
    argv = mmdebstrap_argv(recipe("h100-hgx-debian-nvidia", archives=[NVIDIA]))
    (hook,) = [word for word in argv if "preferences.d" in word]
    assert hook.startswith("--essential-hook=printf 'Package: nvidia-kernel-open-dkms\\nPin: version ")
    assert not [word for word in mmdebstrap_argv(recipe("t4-debian")) if "preferences.d" in word]


def test_archives_and_components_are_the_solvers(tmp_path: Path) -> None:
    made = recipe("h100-hgx-debian-nvidia", archives=[NVIDIA])
    assert NVIDIA in sources_for(made, tmp_path)
    assert "Signed-By: /etc/headnode/keys/nvidia.asc" in to_text(sources_for(made, tmp_path))
    lines = replacements(recipe("t4-debian"))["etc/apt/sources.list.d/debian.sources"].content.decode()
    assert "Components: main contrib non-free non-free-firmware" in lines


def stream(*names: str) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"./{name}"))
    made.seek(0)
    return made


def copied(*names: str) -> Seen:
    found = tarball.copy(stream(*names), io.BytesIO(), drop=("var/lib/dkms/mok.*",), replace={}, mtime=0)
    found.kernel = KERNEL
    return found


def test_compiled_modules_are_seen_and_the_key_that_signed_them_is_not_kept(tmp_path: Path) -> None:
    seen = copied(f"usr/lib/modules/{KERNEL}/updates/dkms/nvidia.ko.xz", f"lib/modules/{KERNEL}/kernel/fs/ext4.ko",
                  "var/lib/dkms/mok.key")  # fmt: skip
    assert seen.modules == [f"lib/modules/{KERNEL}/updates/dkms/nvidia.ko.xz"]
    assert seen.entries == 2
    refuse_without_modules(recipe("t4-debian"), seen, tmp_path)


@pytest.mark.parametrize("path", ["lib/modules/6.1.0-1-amd64/updates/dkms/nvidia.ko", "lib/modules/x/kernel/nvidia.ko"])
def test_a_driver_that_was_not_compiled_for_this_kernel_is_no_image(tmp_path: Path, path: str) -> None:
    with pytest.raises(HeadnodeError, match=f"nvidia-kernel-dkms has built no module for kernel {KERNEL}"):
        refuse_without_modules(recipe("t4-debian"), copied(path), tmp_path)


def test_an_image_without_a_driver_needs_none(tmp_path: Path) -> None:
    refuse_without_modules(recipe("vm-without-gpu"), copied(), tmp_path)
