"""Make the ramdisk: a kernel and an initrd that hold everything, published together with one rename.

The initrd is two archives, one after the other: Debian's packages, which take a minute to gather, and our own files.
"""

import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from headnode import run
from headnode.errors import HeadnodeError
from images import cpio
from images.bootstrap import root_file_system
from images.recipes import Recipe
from images.stages import Progress
from images.tarball import KERNEL, Replacement, matcher, plain, reading

HERE = Path(__file__).parent
AGENT = HERE.parent / "agent"
HOME = "usr/lib/headnode"
# Level 12 is where smaller begins to cost much more time than it saves on the wire.
COMPRESS = ("zstd", "--quiet", "-12", "--threads=0", "-c")
KINDS = {
    tarfile.REGTYPE: "file", tarfile.AREGTYPE: "file", tarfile.DIRTYPE: "dir", tarfile.SYMTYPE: "link",
    tarfile.CHRTYPE: "char", tarfile.BLKTYPE: "block",
}  # fmt: skip
SSHD = "PermitRootLogin prohibit-password\nPasswordAuthentication no\nUsePAM no\n"
PROGRAM = f'#!/bin/sh\nPYTHONPATH=/{HOME} exec python3 -m headnode_agent "$@"\n'


def own_files() -> dict[str, Replacement]:
    """What we add to Debian's packages: the first process, the agent, and how to come in."""
    files = {
        "init": Replacement((HERE / "init").read_bytes(), 0o755),
        f"{HOME}/dhcp": Replacement((HERE / "dhcp").read_bytes(), 0o755),
        "usr/bin/headnode-agent": Replacement(PROGRAM.encode(), 0o755),
        "etc/hostname": Replacement(b"ramdisk\n"),
        "etc/machine-id": Replacement(b""),
        # Nobody logs in with a password, and not at all before keys came with a claimed rescue.
        "etc/ssh/sshd_config": Replacement(SSHD.encode()),
    }
    for source in sorted(AGENT.rglob("*.py")):
        files[f"{HOME}/headnode_agent/{source.relative_to(AGENT)}"] = Replacement(source.read_bytes())
    return files


def build(recipe: Recipe, scratch: Path, log: Path, epoch: int, *, proxy: str | None, progress: Progress) -> Path:
    """Fill `scratch/out` with vmlinuz and initrd; the caller publishes it."""
    base = scratch / "base"
    base.mkdir()
    build_base(recipe, base, log, epoch, proxy=proxy, progress=progress)
    out = scratch / "out"
    out.mkdir()
    assemble(base, out, epoch)
    return out


def build_base(recipe: Recipe, base: Path, log: Path, epoch: int, *, proxy: str | None, progress: Progress) -> None:
    """Debian's part: `vmlinuz` and `packages.cpio.zst` in the directory `base`."""

    def write(target: IO[bytes]) -> bytes:
        with root_file_system(recipe, base, log, epoch, proxy=proxy, progress=progress) as source:
            return convert(source, target, recipe.drop, epoch)

    kernel = compressed(write, base / "packages.cpio.zst", log)
    (base / "vmlinuz").write_bytes(kernel)


def assemble(base: Path, out: Path, epoch: int) -> None:
    """Both parts as one initrd, and the kernel beside it."""
    with (out / "initrd").open("wb") as target:
        packages = (base / "packages.cpio.zst").read_bytes()
        # The kernel looks for the next archive at a multiple of four.
        target.write(packages + cpio.padding(len(packages)))
        target.write(b"".join(own_entries(own_files(), epoch)) + cpio.trailer())
    (out / "vmlinuz").write_bytes((base / "vmlinuz").read_bytes())
    for file in out.iterdir():
        file.chmod(0o644)


def compressed(write: Callable[[IO[bytes]], bytes], place: Path, log: Path) -> bytes:
    """Call `write` with a stream that is compressed into a file."""
    with (
        place.open("wb") as target,
        log.open("ab") as said,
        run.contained(COMPRESS, stdin=run.PIPE, stdout=target, stderr=said) as packer,
    ):
        assert packer.stdin is not None  # noqa: S101 - for the type checker
        result = write(packer.stdin)
        packer.stdin.close()
        if packer.wait() != 0:
            raise HeadnodeError("the ramdisk could not be compressed", hint=f"see {log}")
    return result


def convert(source: IO[bytes], target: IO[bytes], drop: Sequence[str], mtime: int) -> bytes:
    """tar in, cpio out, without touching the disk; returns the kernel, which is not in the ramdisk itself."""
    kernel = b""
    unwanted = matcher(drop)
    numbers = iter(range(1, 1 << 31))
    links: list[tuple[str, str]] = []
    with reading(source) as old:
        try:
            for member in old:
                name = plain(member.name)
                if KERNEL.fullmatch(name):
                    kernel = content_of(old, member).read()
                elif not name or unwanted(name):
                    continue
                elif member.islnk():
                    links.append((name, plain(member.linkname)))
                else:
                    cpio.write(target, packed(old, member, name, next(numbers)))
        except (tarfile.TarError, EOFError) as error:
            raise HeadnodeError(f"the root file system ended in its middle: {error}") from error
    for name, original in sorted(links):
        # A second name for the same file; a symbolic link costs nothing and reads the same.
        target.write(cpio.entry(name, "link", 0o777, next(numbers), mtime, f"/{original}".encode()))
    target.write(cpio.trailer())
    if not kernel:
        raise HeadnodeError("there is no kernel among the ramdisk's packages")
    return kernel


def packed(old: tarfile.TarFile, member: tarfile.TarInfo, name: str, number: int) -> Iterator[bytes]:
    kind = KINDS.get(member.type, "")
    owner, mtime = (member.uid, member.gid), int(member.mtime)
    if kind == "file":
        yield cpio.header(name, cpio.TYPES["file"] | member.mode, member.size, number, mtime, owner=owner)
        yield from cpio.stream(content_of(old, member), member.size)
    elif kind:
        text = member.linkname.encode() if kind == "link" else b""
        device = (member.devmajor, member.devminor) if kind in ("char", "block") else (0, 0)
        yield cpio.entry(name, kind, member.mode, number, mtime, text, owner, device)


def content_of(old: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = old.extractfile(member)
    if content is None:
        raise tarfile.TarError(f"{member.name} is no plain file")
    return content


def own_entries(own: Mapping[str, Replacement], mtime: int) -> Iterator[bytes]:
    numbers = iter(range(1, 1 << 31))
    made: set[str] = set()
    for name, file in sorted(own.items()):
        # The kernel makes no directories by itself.
        for parent in reversed(Path(name).parents[:-1]):
            if str(parent) not in made:
                made.add(str(parent))
                yield cpio.entry(str(parent), "dir", 0o755, next(numbers), mtime)
        yield cpio.entry(name, "file", file.mode, next(numbers), mtime, file.content)


def publish(out: Path, place: Path) -> Path:
    """Make a new pair of files live with one rename of a link; who reads the old pair goes on reading it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    version = place.with_name(f"{place.name}.{max((n for n, _ in versions(place)), default=0) + 1}")
    out.chmod(0o755)
    out.rename(version)
    link = place.with_name(f"{place.name}.new")
    link.unlink(missing_ok=True)
    link.symlink_to(version.name)
    link.replace(place)
    return version


def versions(place: Path) -> list[tuple[int, Path]]:
    """Oldest first."""
    pattern = re.compile(rf"{re.escape(place.name)}\.(\d+)")
    paths = place.parent.iterdir() if place.parent.is_dir() else ()
    return sorted((int(found[1]), path) for path in paths if (found := pattern.fullmatch(path.name)))


def old_versions(place: Path) -> list[Path]:
    """All but the live one and the one before it, which a node may be loading at this moment."""
    return [path for _, path in versions(place)[:-2]]
