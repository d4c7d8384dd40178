"""Heavy builds, made once for all test runs on a machine: a ramdisk's packages and a small image that boots."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import images
from images.ramdisk import build as ramdisk
from images.ramdisk.recipe import ramdisk_recipe
from images.recipes import Recipe, in_order
from images.signing import signer
from images.store import Image, Store

CACHE = Path(os.environ.get("HEADNODE_TEST_CACHE", "/var/cache/headnode-test"))
EPOCH = 1_700_000_000
SOURCES = Path(images.__file__).parent
BUILDERS = ("bootstrap.py", "build.py", "cpio.py", "recipes.py", "sources.py", "tarball.py", "ramdisk/build.py")
# A small node as it is deployed: it boots with either firmware, reports, and can be logged in to.
NODE = Recipe(
    os="debian",
    suite="bookworm",
    architecture="amd64",
    packages=in_order(
        ("systemd-sysv", "udev", "kmod", "initramfs-tools", "zstd", "e2fsprogs", "grub2-common", "grub-pc-bin",
         "grub-efi-amd64-bin", "iproute2", "dbus", "python3", "openssh-server", "dosfstools", "xfsprogs",
         "grub-efi-amd64-signed", "shim-signed", "efibootmgr", "util-linux")
    ),
    kernel="linux-image-cloud-amd64",
    without=("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*"),
)  # fmt: skip


def cached(kind: str, recipe: Recipe, build: Callable[[Path, Path], object]) -> Path:
    """The directory that `build(directory, log)` fills, or filled in an earlier run from the same inputs."""
    digest = hashlib.sha256(recipe.digest.encode())
    for name in BUILDERS:
        digest.update((SOURCES / name).read_bytes())
    CACHE.mkdir(parents=True, exist_ok=True)
    place = CACHE / f"{kind}-{digest.hexdigest()[:16]}"
    with (CACHE / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            # Other work trees on this machine may use their own.
            for old in sorted(CACHE.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime)[:-4]:
                shutil.rmtree(old)
            draft = CACHE / f"draft-{kind}"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            build(draft, CACHE / f"{kind}.log")
            draft.rename(place)
    return place


def ramdisk_base() -> Path:
    recipe = ramdisk_recipe("cloud")

    def build(place: Path, log: Path) -> None:
        ramdisk.build_base(recipe, place, log, EPOCH, proxy=None, progress=lambda _: None)

    return cached("ramdisk", recipe, build)


def node_image() -> Image:
    from images.build import build as build_image

    def build(place: Path, log: Path) -> None:
        build_image(
            Store(place / "images"), "node", NODE, signer(place / "key"), work=place / "work", logs=place / "logs",
            epoch=EPOCH, progress=lambda _: None,
        )  # fmt: skip

    return Store(cached("image", NODE, build) / "images").find("node")
