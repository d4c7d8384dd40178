"""Debian's own partman, taken from its installer's packages, in a root of its own: it partitions a disk by a recipe."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.images.aptworld import installer

HERE = Path(__file__).parent / "partman"
PACKAGES = ("partman-auto", "partman-base")
# Scripts name each other by paths that a host has not; the program has only paths below /var, which the root has.
SCRIPTS = re.compile(r"(?<!var)/lib/partman/(lib|recipes)")


@dataclass(frozen=True)
class Said:
    """What partman made of one partition."""

    number: int
    start: int
    end: int
    method: str
    file_system: str
    mount: str
    options: tuple[str, ...]


def prepare(place: Path) -> Path:
    """Download and arrange; done once for all recipes."""
    apt = installer(place / "apt")
    fetched = place / "fetched"
    fetched.mkdir()
    apt.run("apt-get", "download", *PACKAGES, cwd=fetched)
    root = place / "root"
    for name in ("usr", "dev", "proc", "sys", "tmp", "run", "etc", "var/lib/partman/devices", "var/log", "var/run"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    shutil.copy("/etc/ld.so.cache", root / "etc")
    unpacked = place / "unpacked"
    for package in sorted(fetched.iterdir()):
        subprocess.run(["dpkg-deb", "--extract", package, unpacked], check=True)
    shutil.copytree(unpacked / "lib/partman", root / "partman")
    shutil.copytree(unpacked / "bin", root / "udeb")
    for path in [*(root / "partman/lib").iterdir(), *(root / "udeb").iterdir()]:
        content = path.read_bytes()
        if b"\0" not in content:
            text = SCRIPTS.sub(r"/partman/\1", content.decode())
            path.write_text(text.replace(". /usr/share/debconf/confmodule", ". /confmodule"))
    shutil.copy(HERE / "evaluate", root)
    shutil.copy(HERE / "confmodule", root)
    return root


def evaluate(root: Path, recipe: str, device: str) -> list[Said]:
    """Partition the device for real, and return what partman says of each partition."""
    # debconf hands a preseeded answer over with its continuation lines joined.
    (root / "recipe").write_text(recipe.replace("\\\n", " "))
    shutil.rmtree(root / "var/lib/partman")
    (root / "var/lib/partman/devices").mkdir(parents=True)
    for left in ("var/run/parted_server.pid", "var/log/partman"):
        (root / left).unlink(missing_ok=True)
    mounts = " && ".join(f"mount --rbind /{name} {root}/{name}" for name in ("usr", "dev", "proc", "sys"))
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
            f"{mounts} && exec chroot {root} /evaluate {device}"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    log = root / "var/log/partman"
    assert done.returncode == 0, done.stderr + (log.read_text()[-3000:] if log.exists() else "")
    return [said(line) for line in done.stdout.splitlines()]


def said(line: str) -> Said:
    number, span, method, file_system, mount, options = line.split(";")
    start, end = span.split("-")
    return Said(int(number), int(start), int(end) + 1, method, file_system, mount, tuple(options.split()))
