"""Media of distributions' installers: what an ISO is, and the files that nodes start it from."""

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycdlib import PyCdlib
from pycdlib.pycdlibexception import PyCdlibException

from headnode.errors import InvalidInput
from images.recipes import SUITES

UBUNTU = re.compile(r'Ubuntu-Server (?P<release>\d\d\.\d\d)(\.\d+)?( LTS)? "(?P<name>[^"]+)" - .*(?P<arch>amd64|arm64)')
# From the first help screen of its boot menu.
DEBIAN = re.compile(r"This is a (?P<title>Debian (?P<release>\d+) \([a-z]+\) installation.*)")
DIGEST = re.compile(r"[0-9a-f]{64}")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Medium:
    """What a file was found to be."""

    os: str
    release: str
    architecture: str
    method: str
    title: str
    kernel: str
    initrd: str

    @property
    def name(self) -> str:
        return f"{self.os}-{self.release}"

    @property
    def whole(self) -> bool:
        """Ubuntu's live system is fetched whole; Debian's installer fetches packages."""
        return self.method == "autoinstall"


def verify(path: Path, sha256: str | None, sums: Path | None, progress: Progress) -> str:
    """The file's checksum, which must be the one that somebody vouches for."""
    expected = expected_sum(path.name, sha256, sums)
    progress("checking the checksum")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise InvalidInput(f"the SHA-256 of {path.name} is {found}, and {expected} was expected; nothing was imported")
    return found


def expected_sum(name: str, sha256: str | None, sums: Path | None) -> str:
    if sha256 is not None:
        if not DIGEST.fullmatch(sha256.lower()):
            raise InvalidInput(f"sha256 is '{sha256[:80]}'; use its 64 hexadecimal digits")
        return sha256.lower()
    if sums is None:
        raise InvalidInput(
            "a checksum is required", hint="--sums SHA256SUMS, from the same place as the file, or --sha256 DIGITS"
        )
    for line in sums.read_text(errors="replace").splitlines():
        digest, _, listed = line.partition(" ")
        if listed.strip().lstrip("*").removeprefix("./") == name and DIGEST.fullmatch(digest):
            return digest
    raise InvalidInput(f"{sums.name} does not list {name}", hint="the file must have the name it was published under")


@contextmanager
def opened(path: Path) -> Iterator["Iso"]:
    iso = PyCdlib()
    try:
        iso.open(str(path))
    except (PyCdlibException, OSError, ValueError) as error:
        raise InvalidInput(f"{path.name} is no ISO image: {error}") from error
    try:
        yield Iso(iso)
    finally:
        iso.close()


class Iso:
    """An ISO by the names people see: Rock Ridge's, Joliet's, or the plain ones in lower case."""

    def __init__(self, iso: PyCdlib) -> None:
        self._iso = iso
        self.kind = "rr_path" if iso.has_rock_ridge() else "joliet_path" if iso.has_joliet() else "iso_path"

    def text(self, path: str) -> str | None:
        buffer = io.BytesIO()
        try:
            self._iso.get_file_from_iso_fp(buffer, **{self.kind: self._name(path)})
        except PyCdlibException:
            return None
        return buffer.getvalue().decode("utf-8", "replace").strip()

    def has(self, path: str) -> bool:
        try:
            self._iso.get_record(**{self.kind: self._name(path)})
        except PyCdlibException:
            return False
        return True

    def extract(self, path: str, target: Path) -> None:
        with target.open("wb") as file:
            self._iso.get_file_from_iso_fp(file, **{self.kind: self._name(path)})

    def listing(self) -> list[str]:
        """What is at its top, as far as it says."""
        found: list[str] = []
        for child in self._iso.list_children(**{self.kind: "/"}):
            name: Any = child.rock_ridge.name() if child.rock_ridge else child.file_identifier()
            text = (
                name.decode("utf-8", "replace") if self.kind != "joliet_path" else name.decode("utf-16-be", "replace")
            )
            found.append(text.split(";")[0])
        return [name for name in found if name.isprintable() and name not in ("", ".", "..")]

    def label(self) -> str:
        return str(self._iso.pvd.volume_identifier.decode("ascii", "replace")).strip()

    def _name(self, path: str) -> str:
        return path if self.kind != "iso_path" else f"{path.upper()};1"


def identify(path: Path) -> Medium:
    with opened(path) as iso:
        found = ubuntu(iso) or debian(iso)
        if found is None:
            info = iso.text("/.disk/info")
            raise InvalidInput(
                f"{path.name} is no installer that is known: its volume is called '{iso.label()}', "
                f"{f'it says of itself {info[:80]!r}' if info else 'it has no .disk/info'}, "
                f"and holds {', '.join(sorted(iso.listing())[:12]) or 'nothing'}",
                hint="known are Ubuntu's live-server ISO (22.04, 24.04) and Debian's netboot mini.iso",
            )
    return found


def ubuntu(iso: Iso) -> Medium | None:
    info = iso.text("/.disk/info") or ""
    match = UBUNTU.match(info)
    if not match or ("ubuntu", match["release"]) not in SUITES or not iso.has("/casper/vmlinuz"):
        return None
    return Medium("ubuntu", match["release"], match["arch"], "autoinstall", info, "/casper/vmlinuz", "/casper/initrd")


def debian(iso: Iso) -> Medium | None:
    """mini.iso has no .disk/info; which Debian it is stands in the first help screen of its boot menu."""
    match = DEBIAN.search(iso.text("/f1.txt") or "")
    if not match or ("debian", match["release"]) not in SUITES or not (iso.has("/linux") and iso.has("/initrd.gz")):
        return None
    return Medium("debian", match["release"], "amd64", "preseed", match["title"].strip(), "/linux", "/initrd.gz")


def fill(medium: Medium, path: Path, directory: Path) -> None:
    """The files of a version, from an ISO."""
    with opened(path) as iso:
        iso.extract(medium.kernel, directory / "vmlinuz")
        iso.extract(medium.initrd, directory / "initrd")


def manifest(medium: Medium, built: str, source: str) -> dict[str, Any]:
    return {
        "method": medium.method,
        "os": medium.os,
        "release": medium.release,
        "suite": SUITES[medium.os, medium.release],
        "architecture": MACHINES[medium.architecture],
        "title": medium.title,
        "source": source,
        "built": built,
    }
