"""A root file system on its way from mmdebstrap to its archive: entries dropped, replaced and looked at. One pass."""

import fnmatch
import io
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from headnode.errors import HeadnodeError

BLOCK = 1 << 20
STATUS = "var/lib/dpkg/status"
LASTING = ("var/log/",)
KERNEL = re.compile(r"boot/vmlinuz-(?P<version>[^/]+)")
MODULE = re.compile(r"(usr/)?lib/modules/[^/]+/updates/dkms/[^/]+\.ko(\.[a-z0-9]+)?")
INITRD = re.compile(r"boot/initrd\.img-(?P<version>[^/]+)")


@dataclass(frozen=True)
class Replacement:
    """A file that is written by us, whatever the packages say."""

    content: bytes
    mode: int = 0o644


@dataclass
class Seen:
    """What was found on the way."""

    status: str = ""
    kernel: str = ""
    unpacked: int = 0
    entries: int = 0
    kept: dict[str, bytes] = field(default_factory=dict)
    # Kernel modules that were compiled here, not shipped.
    modules: list[str] = field(default_factory=list)


def plain(name: str) -> str:
    """mmdebstrap writes ./etc/hostname; we say etc/hostname."""
    return name.removeprefix("./").rstrip("/")


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path is one of these, or below one; * does not stop at a slash."""
    if not patterns:
        return lambda _: False
    joined = "|".join(fnmatch.translate(pattern) for pattern in patterns)
    matches = re.compile(joined).match
    return lambda name: matches(name) is not None


def copy(
    source: IO[bytes],
    target: IO[bytes],
    *,
    drop: Sequence[str],
    replace: Mapping[str, Replacement],
    mtime: int,
    keep: Sequence[re.Pattern[str]] = (KERNEL, INITRD),
) -> Seen:
    """Copy a tar; what `keep` names is also handed back, and every replacement is in the result exactly once."""
    seen = Seen()
    with reading(source) as old, tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as new:
        try:
            for member, content in entries(old, drop, replace, seen, keep):
                new.addfile(member, content)
        except tarfile.TarError as error:
            raise HeadnodeError(f"the root file system ended in its middle: {error}") from error
        for name in sorted(replace):
            new.addfile(*replaced(name, replace[name], mtime))
            seen.unpacked += len(replace[name].content)
    return seen


def entries(
    old: tarfile.TarFile,
    drop: Sequence[str],
    replace: Mapping[str, Replacement],
    seen: Seen,
    keep: Sequence[re.Pattern[str]],
) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """The entries that stay; the content of kept ones is read into memory, all others pass through."""
    unwanted = matcher(drop)
    for member in old:
        name = plain(member.name)
        # A daemon's place for its logs is no leftover, only what is in it. Others are: apt's own, for example, belong
        # to root or to _apt depending on where the build took place, and apt makes them when it needs them.
        if name in replace or (unwanted(name) and not (member.isdir() and name.startswith(LASTING))):
            continue
        # A file system lists attributes in any order.
        member.pax_headers = dict(sorted(member.pax_headers.items()))
        seen.entries += 1
        seen.unpacked += member.size
        if MODULE.fullmatch(name):
            seen.modules.append(name.removeprefix("usr/"))
        content: IO[bytes] | None = old.extractfile(member) if member.isreg() else None
        if content is not None and (name == STATUS or any(p.fullmatch(name) for p in keep)):
            content = remembered(name, content.read(), seen)
        yield member, content


def remembered(name: str, content: bytes, seen: Seen) -> IO[bytes]:
    if name == STATUS:
        seen.status = content.decode("utf-8", "replace")
    else:
        seen.kept[name] = content
        if found := KERNEL.fullmatch(name):
            seen.kernel = found["version"]
    return io.BytesIO(content)


def replaced(name: str, new: Replacement, mtime: int) -> tuple[tarfile.TarInfo, IO[bytes]]:
    member = tarfile.TarInfo(f"./{name}")
    member.size, member.mode, member.mtime = len(new.content), new.mode, mtime
    return member, io.BytesIO(new.content)


def reading(source: IO[bytes]) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=source, mode="r|", bufsize=BLOCK)
    except tarfile.TarError as error:
        raise HeadnodeError("no root file system came out of mmdebstrap") from error


def packages(status: str) -> list[dict[str, str]]:
    """The software bill of materials, from dpkg's own record."""
    found = []
    for block in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(" "))
        if fields.get("Status", "").endswith(" installed") and "Package" in fields:
            found.append({
                "name": fields["Package"],
                "version": fields.get("Version", ""),
                "architecture": fields.get("Architecture", ""),
            })  # fmt: skip
    return sorted(found, key=lambda package: (package["name"], package["architecture"]))
