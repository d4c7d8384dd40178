"""Backup: everything of a head node that cannot be made again, in one file that only its key opens.

In it: the database (nodes, numbers of people, events, sealed secrets and host keys), the directory, and all of
/etc/headnode (site.yaml, the secrets key, the certificate authority, the signing key). Not in it, because they can be
made again or are kept elsewhere: images, published files, caches, console recordings, sensor histories and homes.
"""

import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headnode import __version__, sealedfile, sitefile, sitetext
from headnode.errors import HeadnodeError, InvalidInput, shown
from headnode.files import sha256_of
from headnode.inventory import dumps
from headnode.paths import Paths
from headnode.publish import confined
from headnode.sealedfile import Unlocking
from headnode.site import Site
from headnode.workflows import directorydump, plaintar
from headnode.workflows.context import Context
from images.store import scratch

FORMAT = 1
MANIFEST, DATABASE, DIRECTORY, CONFIG = "manifest.json", "database", "directory.ldif", "config"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Contents:
    """What an archive says of itself; proven, once it has been read to its end."""

    cluster: str
    created: str
    version: str
    database: str
    files: Mapping[str, str]

    @property
    def has_directory(self) -> bool:
        return DIRECTORY in self.files


def workplace(paths: Paths) -> Path:
    return paths.state / "backup"


@contextmanager
def private_scratch(paths: Paths) -> Iterator[Path]:
    """On the same file system as what will be restored, so that files get there by renaming; nobody else looks in."""
    paths.state.mkdir(parents=True, exist_ok=True)
    workplace(paths).mkdir(mode=0o700, exist_ok=True)
    with scratch(workplace(paths), "archive") as place:
        yield place


def create(context: Context, target: Path, unlocking: Unlocking, tell: Tell) -> Contents:
    """Written beside its place and renamed: a backup that was interrupted is never mistaken for one."""
    if target.exists():
        raise InvalidInput(f"{shown(target)} exists already and is not overwritten", hint="choose another name")
    site = context.site
    with private_scratch(context.paths) as place:
        tell("copying the database")
        dumps.dump(site.database.url, context.paths.database, place / DATABASE)
        tell("copying the directory")
        directorydump.dump(context.paths, place / DIRECTORY)
        files = collected(context.paths, place)
        made = Contents(
            site.cluster, datetime.now(UTC).isoformat(timespec="seconds"), __version__,
            dumps.kind_of(site.database.url), {name: sha256_of(path) for name, path in files.items()},
        )  # fmt: skip
        tell(f"sealing {len(files)} files")
        write(target, files, made, unlocking)
    with context.inventory.change(context.actor, context.cause) as change:
        change.record("backup", f"backed up {len(files)} files to {target}")
    return made


def collected(paths: Paths, place: Path) -> dict[str, Path]:
    """Name in the archive → where it is now."""
    found = {name: place / name for name in (DATABASE, DIRECTORY) if (place / name).exists()}
    for path in sorted(paths.config.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.endswith(".draft"):
            found[f"{CONFIG}/{path.relative_to(paths.config)}"] = path
    return found


def left_out(context: Context) -> list[str]:
    """Files that site.yaml names and that are somewhere else, so that they are not in the archive."""
    site = context.site
    named = (
        site.bmc.password_file, site.directory.bind_password_file, site.directory.ca_file, site.notify.webhook_file,
        *site.packages.registries.values(),
    )  # fmt: skip
    return [path for path in named if path and not path.startswith("/etc/headnode/")]


def write(target: Path, files: Mapping[str, Path], made: Contents, unlocking: Unlocking) -> None:
    draft = target.with_name(f"{target.name}.part")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            sealedfile.seal(packed(files, made), stream, unlocking)
            stream.flush()
            os.fsync(descriptor)
        draft.rename(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise HeadnodeError(f"the backup {target} cannot be written: {error.strerror}") from error


def packed(files: Mapping[str, Path], made: Contents) -> Iterator[bytes]:
    """A tar, piece by piece, with the description at its front."""
    buffer = io.BytesIO()

    def taken() -> bytes:
        piece = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return piece

    with tarfile.open(fileobj=buffer, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        about = json.dumps({"format": FORMAT, **vars(made)}, indent=1).encode()
        plaintar.add(tar, MANIFEST, len(about), 0o600, io.BytesIO(about))
        yield taken()
        for name, path in files.items():
            status = path.stat()
            with path.open("rb") as stream:
                plaintar.add(tar, name, status.st_size, status.st_mode & 0o777, stream)
            yield taken()
    yield taken()


# The way back.


class Pieces(io.RawIOBase):
    """The opened archive as a file, for tarfile to read from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces
        self.held = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self.held:
            piece = next(self.pieces, None)
            if piece is None:
                return 0
            self.held = piece
        size = min(len(target), len(self.held))
        target[:size] = self.held[:size]
        self.held = self.held[size:]
        return size


@contextmanager
def opened(paths: Paths, archive: Path, unlocking: Unlocking) -> Iterator[tuple[Contents, Path]]:
    """The archive unpacked in a private place, once every byte of it is proven; nothing else has been touched."""
    with private_scratch(paths) as place:
        try:
            with archive.open("rb") as stream:
                pieces = Pieces(sealedfile.unseal(stream, unlocking))
                with tarfile.open(fileobj=io.BufferedReader(pieces), mode="r|") as tar:
                    plaintar.unpack(tar, place, 0o700)
                # Whatever follows the tar's end is proven too: a cut shows only at the last chunk.
                while pieces.read(1 << 20):
                    pass
        except OSError as error:
            raise InvalidInput(f"the backup {shown(archive)} cannot be read: {error.strerror}") from None
        except tarfile.TarError as error:
            raise HeadnodeError(f"the backup {shown(archive)} holds something else than it should: {error}") from None
        contents = described(place)
        if wrong := [name for name, sha256 in contents.files.items() if not matches(place, name, sha256)]:
            raise HeadnodeError(f"the backup is damaged: {', '.join(wrong)} is not as it was")
        if problems := dumps.problems(contents.database, place / DATABASE):
            raise HeadnodeError(f"the backup is damaged: {'; '.join(problems)}")
        yield contents, place


def described(place: Path) -> Contents:
    try:
        about = json.loads((place / MANIFEST).read_text())
        if about.pop("format") != FORMAT:
            raise HeadnodeError("this backup was made by a newer Headnode than this one", hint="upgrade, then restore")
        return Contents(**about)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise HeadnodeError("the backup does not say what is in it") from error


def matches(place: Path, name: str, sha256: str) -> bool:
    path = confined(place, name)
    return path.is_file() and sha256_of(path) == sha256


def verify(paths: Paths, archive: Path, unlocking: Unlocking) -> Contents:
    """Read all of it as a restore would, and change nothing."""
    with opened(paths, archive, unlocking) as (contents, place):
        restored_site(paths, place)
        return contents


def restored_site(paths: Paths, place: Path) -> Site:
    return sitefile.parse(sitetext.read(place / CONFIG / paths.site_file.name), f"{paths.site_file.name} of the backup")
