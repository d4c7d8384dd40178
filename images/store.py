"""Images that were built: each version a directory that appears whole and is never changed again.

    images/gpu@3/image.tar.zst  vmlinuz  initrd  packages.json  sbom.cdx.json  build.log  manifest.json  manifest.sig

The manifest holds the SHA-256 of every other file, and the signature covers the manifest.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headnode import fields
from headnode.errors import HeadnodeError, NotFound
from images.signing import Signer, valid

MANIFEST, SIGNATURE, IMAGE, PACKAGES = "manifest.json", "manifest.sig", "image.tar.zst", "packages.json"
LEAST_KEPT = 1


@dataclass(frozen=True)
class Image:
    """One version of an image."""

    name: str
    version: int
    directory: Path
    manifest: Mapping[str, Any]

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def url(self) -> str:
        """Where the head node serves it, as a path."""
        return f"/images/{self.reference}/{self.largest}"

    @property
    def method(self) -> str:
        """How it gets to a node: as an image of ours, or through the installer that it is the medium of."""
        return str(self.manifest.get("method", "image"))

    @property
    def system(self) -> str:
        """Distribution and release; an image has them in its recipe, a medium beside its files."""
        told = self.manifest.get("recipe") or self.manifest
        return f"{told['os']} {told['suite']}"

    @property
    def kernel(self) -> str:
        """The version it starts; a medium does not say."""
        return str(self.manifest.get("kernel") or "")

    @property
    def sha256(self) -> str:
        return str(self.manifest["files"][self.largest]["sha256"])

    @property
    def size(self) -> int:
        return int(self.manifest["files"][self.largest]["size"])

    @property
    def largest(self) -> str:
        """The file that matters: the archive, or of a medium the one that nodes fetch longest."""
        files = self.manifest["files"]
        return IMAGE if IMAGE in files else max(files, key=lambda name: int(files[name]["size"]))

    @property
    def unpacked_size(self) -> int:
        return int(self.manifest.get("unpacked_size", 0))

    @property
    def packages(self) -> list[dict[str, str]]:
        path = self.directory / PACKAGES
        return list(json.loads(path.read_text())) if path.exists() else []


def parse_reference(text: str) -> tuple[str, int | None]:
    """gpu@3 → (gpu, 3); gpu alone means its newest version."""
    name, _, version = fields.image_reference(text).partition("@")
    return name, int(version) if version else None


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root

    def images(self, name: str | None = None) -> list[Image]:
        """Every version, by name and number; a directory without a readable manifest is none."""
        paths = self.root.iterdir() if self.root.is_dir() else ()
        found = (self._read(path) for path in paths)
        wanted = (image for image in found if image and name in (None, image.name))
        return sorted(wanted, key=lambda image: (image.name, image.version))

    def find(self, reference: str) -> Image:
        name, version = parse_reference(reference)
        if version is not None:
            image = self._read(self.root / f"{name}@{version}")
        else:
            image = next(reversed(self.images(name)), None)
        if image is None:
            known = ", ".join(image.reference for image in self.images()) or "none yet"
            raise NotFound(f"there is no image '{reference}'; known are {known}", hint=f"headnode image build {name}")
        return image

    def publish(self, name: str, filled: Path, manifest: Mapping[str, Any], signer: Signer) -> Image:
        """Number, sign and show a filled directory. Until its last step, a rename, nothing is there."""
        with self._locked():
            version = max(self._retired(name), *(image.version for image in self.images(name)), 0) + 1
            files = {path.name: described(path) for path in sorted(filled.iterdir())}
            document = {"name": name, "version": version, **manifest, "files": files}
            text = json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"
            (filled / MANIFEST).write_bytes(text)
            (filled / SIGNATURE).write_text(signer.sign(text) + "\n")
            for path in filled.iterdir():
                path.chmod(0o444)
                flush(path)
            filled.chmod(0o755)
            place = self.root / f"{name}@{version}"
            filled.rename(place)
            flush(self.root)
        return Image(name, version, place, document)

    def verify(self, image: Image, public_key: str) -> list[str]:
        """What is wrong with an image, one sentence each; nothing when it is as it was built."""
        text = (image.directory / MANIFEST).read_bytes()
        try:
            signature = (image.directory / SIGNATURE).read_text().strip()
        except OSError:
            signature = ""
        problems = [] if valid(text, signature, public_key) else ["the manifest's signature is not this site's"]
        for name, expected in image.manifest["files"].items():
            path = image.directory / name
            if not path.is_file():
                problems.append(f"{name} is missing")
            elif (real := described(path)) != expected:
                problems.append(f"{name} was changed: its SHA-256 is {real['sha256']}, not {expected['sha256']}")
        extra = {p.name for p in image.directory.iterdir()} - {*image.manifest["files"], MANIFEST, SIGNATURE}
        return problems + [f"{name} does not belong to the image" for name in sorted(extra)]

    def remove(self, image: Image) -> None:
        """Out of sight first, so that a half-removed version is never found."""
        with self._locked():
            self._retire(image)
            gone = self.root / f".removed-{image.reference}-{os.getpid()}"
            image.directory.rename(gone)
        shutil.rmtree(gone)

    def old(self, keep: int, used: Callable[[Image], bool]) -> list[Image]:
        """What can go: all but the newest few of each name, and those that somebody uses."""
        images = self.images()
        newest = {
            image.reference
            for name in {image.name for image in images}
            for image in [i for i in images if i.name == name][-max(keep, LEAST_KEPT) :]
        }
        return [image for image in images if image.reference not in newest and not used(image)]

    def sweep(self) -> None:
        """Finish removals that were interrupted."""
        for path in self.root.glob(".removed-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _read(self, path: Path) -> Image | None:
        found = fields.IMAGE.fullmatch(path.name)
        if not found or not found["version"]:
            return None
        try:
            return Image(found["name"], int(found["version"]), path, json.loads((path / MANIFEST).read_text()))
        except (OSError, ValueError):
            return None

    # A number is never given twice, also not after its image was removed: nodes remember what they were given.

    def _retired(self, name: str) -> int:
        try:
            return int((self.root / f".last-{name}").read_text())
        except (OSError, ValueError):
            return 0

    def _retire(self, image: Image) -> None:
        last = max(self._retired(image.name), image.version)
        (self.root / f".last-{image.name}").write_text(f"{last}\n")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def described(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "size": path.stat().st_size}


def flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Difference:
    """One package that two images do not have in the same version."""

    name: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


def compare(before: Image, after: Image) -> list[Difference]:
    old = {package["name"]: package["version"] for package in before.packages}
    new = {package["name"]: package["version"] for package in after.packages}
    names = sorted({*old, *new})
    return [Difference(n, old.get(n), new.get(n)) for n in names if old.get(n) != new.get(n)]


@contextmanager
def scratch(root: Path, name: str) -> Iterator[Path]:
    """A place to build in, on the store's own file system; what killed builds left there is removed first."""
    root.mkdir(parents=True, exist_ok=True)
    clean_scratch(root)
    place = root / f"{name}-{os.getpid()}-{os.urandom(4).hex()}"
    with held(root):
        place.mkdir(mode=0o755)
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield place
    except OSError as error:
        raise HeadnodeError(f"the build stopped: {error}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def clean_scratch(root: Path) -> list[Path]:
    """Remove what no living build holds; a lock ends with its process."""
    removed: list[Path] = []
    if not root.is_dir():
        return removed
    # Nobody begins meanwhile: a place that was just made and is not locked yet looks like one that was left.
    with held(root):
        for place in sorted(root.iterdir()):
            with contextlib.suppress(OSError), held(place, fcntl.LOCK_NB):
                shutil.rmtree(place)
                removed.append(place)
    return removed


@contextlib.contextmanager
def held(directory: Path, how: int = 0) -> Iterator[None]:
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(lock)
