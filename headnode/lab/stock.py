"""The lab's image and ramdisk: built once with the product's own builders, then kept for every lab and test here."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import images
from headnode.paths import Paths
from images.build import build as build_image
from images.ramdisk import build as ramdisk
from images.ramdisk.recipe import ramdisk_recipe
from images.recipes import LOADERS, Recipe, in_order
from images.signing import KEY, PUBLIC, signer
from images.stages import Progress
from images.store import Image, Store

CACHE = Path(os.environ.get("HEADNODE_LAB_CACHE", "/var/cache/headnode-lab"))
NAME = "node"
EPOCH = 1_700_000_000
# Other work trees and versions on this machine may use their own.
KEPT = 4
SOURCES = Path(images.__file__).parent
BUILDERS = ("bootstrap.py", "build.py", "cpio.py", "recipes.py", "sources.py", "tarball.py", "ramdisk/build.py")
# A small node as it is deployed: it boots with either firmware, reports, and takes part in the cluster. Every package
# costs each node seconds of unpacking, which an emulated processor has few of.
IMAGE = Recipe(
    os="debian",
    suite="bookworm",
    architecture="amd64",
    packages=in_order(
        ("systemd-sysv", "udev", "kmod", "initramfs-tools", "zstd", "e2fsprogs", "iproute2", "dbus", "python3",
         "openssh-server", "dosfstools", "xfsprogs", "util-linux", "sudo", "chrony", "nfs-common", "cachefilesd",
         "sssd-ldap", "libnss-sss", "libpam-sss", "libsss-sudo", "libpam-modules", "pciutils", *LOADERS["amd64"])
    ),
    kernel="linux-image-cloud-amd64",
    without=(
        "/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*",
        "/usr/share/bug/*",
        # Unicode tables that xfs_scrub alone needs, and names of hardware that nobody here has.
        "/usr/sbin/xfs_scrub*", "/usr/lib/*/libicu*", "/usr/lib/udev/hwdb.d/*", "/lib/udev/hwdb.d/*",
        # Boot loaders for other media than a disk, and alphabets of other continents.
        "/usr/lib/grub/x86_64-efi/monolithic/*", "/usr/lib/grub/x86_64-efi-signed/gcd*",
        "/usr/lib/grub/x86_64-efi-signed/grubnet*", "/usr/lib/*/gconv/*", "/usr/lib/*/perl/*/CORE/*",
        "/usr/lib/*/perl/*/auto/Encode/*/*", "/usr/share/perl/*/Unicode/Collate/*",
        # Drivers and file systems of machines that are not emulated here.
        *(f"/lib/modules/*/kernel/{part}/*" for part in (
            "arch/x86/kvm", "drivers/comedi", "drivers/hid", "drivers/infiniband", "drivers/target", "fs/btrfs",
            "fs/ceph", "fs/smb", "fs/ocfs2", "fs/gfs2", "fs/nfsd", "net/ceph", "net/sctp", "net/sched", "net/wireless",
            "drivers/net/ethernet/mellanox", "drivers/net/wireless", "drivers/scsi/lpfc", "drivers/scsi/qla2xxx",
        )),
    ),
)  # fmt: skip


def quietly(stage: str) -> None:
    """Nobody watches."""


def image(progress: Progress = quietly, cache: Path = CACHE) -> Image:
    def build(place: Path, log: Path) -> None:
        build_image(
            Store(place / "images"), NAME, IMAGE, signer(place), work=place / "work", logs=place / "logs",
            epoch=EPOCH, progress=progress,
        )  # fmt: skip

    return Store(cached(cache, "image", IMAGE, build) / "images").find(NAME)


def ramdisk_base(progress: Progress = quietly, cache: Path = CACHE) -> Path:
    """Debian's part of the ramdisk; ours is added anew each time, so that it is never older than the code."""
    recipe = ramdisk_recipe("cloud")

    def build(place: Path, log: Path) -> None:
        ramdisk.build_base(recipe, place, log, EPOCH, proxy=None, progress=progress)

    return cached(cache, "ramdisk", recipe, build)


def is_there(kind: str, cache: Path = CACHE) -> bool:
    return place_of(cache, kind, IMAGE if kind == "image" else ramdisk_recipe("cloud")).exists()


def cached(cache: Path, kind: str, recipe: Recipe, build: Callable[[Path, Path], object]) -> Path:
    """The directory that `build(directory, log)` fills, or filled in an earlier run from the same inputs."""
    cache.mkdir(parents=True, exist_ok=True)
    place = place_of(cache, kind, recipe)
    with (cache / f"{kind}.lock").open("w") as lock:
        # Of two that need it at the same moment, one builds and the other waits for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            for old in sorted(cache.glob(f"{kind}-*"), key=lambda path: path.stat().st_mtime)[: -KEPT + 1]:
                shutil.rmtree(old)
            draft = cache / f"draft-{kind}"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            build(draft, cache / f"{kind}.log")
            draft.rename(place)
    return place


def place_of(cache: Path, kind: str, recipe: Recipe) -> Path:
    digest = hashlib.sha256(recipe.digest.encode())
    for name in BUILDERS:
        digest.update((SOURCES / name).read_bytes())
    return cache / f"{kind}-{digest.hexdigest()[:16]}"


def install(paths: Paths, cache: Path = CACHE) -> None:
    """Give a head node the image and the ramdisk, with the key that signed; twice changes nothing but the agent."""
    found = image(cache=cache)
    home = found.directory.parents[1]
    for name in (KEY, PUBLIC):
        shutil.copy2(home / name, paths.config / name)
    target = paths.state / "images" / found.reference
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(found.directory, target, copy_function=link_or_copy)
    live = paths.state / "ramdisk/x86_64"
    draft = live.with_name("draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    ramdisk.assemble(ramdisk_base(cache=cache), draft, EPOCH)
    ramdisk.publish(draft, live)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
