"""Build an image: mmdebstrap → cleaned tar → zstd, with kernel, initrd, package list and a signed manifest.

The same recipe, archive and SOURCE_DATE_EPOCH give the same bytes.
"""

import json
import os
import shutil
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from headnode import fields, run
from headnode.errors import HeadnodeError, InvalidInput
from images import sbom, tarball
from images.bootstrap import root_file_system
from images.recipes import Recipe, public_sources
from images.signing import Signer
from images.sources import to_text, with_components
from images.stages import LAST, Progress, reached
from images.store import IMAGE, PACKAGES, Image, Store, scratch
from images.tarball import Replacement, Seen

# Decompression speed is the same at every level; nodes decompress, the head node compresses once.
COMPRESS = ("zstd", "--quiet", "-9", "--threads=0", "-c")


def build_epoch() -> int:
    """The moment that all files of a build carry at most; set SOURCE_DATE_EPOCH to build the same bytes again."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not given:
        return int(time.time())
    if not given.isdigit():
        raise InvalidInput(f"SOURCE_DATE_EPOCH is '{given}'; use a number of seconds since 1970")
    return int(given)


def build(
    store: Store,
    name: str,
    recipe: Recipe,
    signer: Signer,
    *,
    work: Path,
    logs: Path,
    epoch: int,
    proxy: str | None = None,
    progress: Progress,
) -> Image:
    """Build and publish the next version. Whatever stops it before its last step, no version appears."""
    fields.image_name(name)
    log = new_log(logs, name)
    with scratch(work, name) as place:
        filled = place / "image"
        filled.mkdir()
        seen = fill(filled, recipe, place, log, epoch, proxy=proxy, progress=progress)
        (filled / sbom.SBOM).write_text(sbom.text(name, recipe, tarball.packages(seen.status), epoch))
        progress(LAST.words)
        reached(progress, LAST.begins)
        shutil.copyfile(log, filled / "build.log")
        return store.publish(name, filled, manifest(recipe, epoch, seen), signer)


def fill(
    filled: Path, recipe: Recipe, place: Path, log: Path, epoch: int, *, proxy: str | None, progress: Progress
) -> Seen:
    """The image's files, without what only its version number needs."""
    with root_file_system(recipe, place, log, epoch, proxy=proxy, progress=progress) as source:
        seen = pack(source, filled / IMAGE, recipe, epoch, log)
    packages = tarball.packages(seen.status)
    if not packages:
        raise HeadnodeError("the new root file system has no packages", hint=f"see {log}")
    (filled / PACKAGES).write_text(json.dumps(packages, indent=1) + "\n")
    for path, content in seen.kept.items():
        (filled / ("vmlinuz" if "vmlinuz" in path else "initrd")).write_bytes(content)
    missing = [file for file in ("vmlinuz", "initrd") if not (filled / file).exists()]
    refuse_without_modules(recipe, seen, log)
    if missing:
        raise HeadnodeError(f"the new root file system has no {' and no '.join(missing)}", hint=f"see {log}")
    return seen


def refuse_without_modules(recipe: Recipe, seen: Seen, log: Path) -> None:
    """DKMS packages install well also where they could not compile; a node would find out at its first start."""
    wanted = [name for name in recipe.packages if name.endswith("-dkms") and "nvidia" in name]
    if wanted and not any(path.startswith(f"lib/modules/{seen.kernel}/") for path in seen.modules):
        raise HeadnodeError(f"{wanted[0]} has built no module for kernel {seen.kernel}", hint=f"see {log}")


def pack(source: IO[bytes], target: Path, recipe: Recipe, epoch: int, log: Path) -> Seen:
    with (
        target.open("wb") as archive,
        log.open("ab") as said,
        run.contained(COMPRESS, stdin=run.PIPE, stdout=archive, stderr=said) as packer,
    ):
        assert packer.stdin is not None  # noqa: S101 - for the type checker
        try:
            seen = tarball.copy(source, packer.stdin, drop=recipe.drop, replace=replacements(recipe), mtime=epoch)
            packer.stdin.close()
        except BrokenPipeError as error:
            raise HeadnodeError("the image could not be compressed; is the disk full?", hint=f"see {log}") from error
        if packer.wait() != 0:
            raise HeadnodeError("the image could not be compressed", hint=f"see {log}")
    return seen


def replacements(recipe: Recipe) -> dict[str, Replacement]:
    """What a generic image says of itself, instead of what the machine that built it said."""
    sources = to_text(with_components(public_sources(recipe.os, recipe.suite), recipe.components))
    return {
        "etc/machine-id": Replacement(b"", 0o444),
        "etc/hostname": Replacement(b"localhost\n"),
        f"etc/apt/sources.list.d/{recipe.os}.sources": Replacement(sources.encode()),
    }


def manifest(recipe: Recipe, epoch: int, seen: Seen) -> dict[str, Any]:
    return {
        "built": datetime.now(UTC).isoformat(timespec="seconds"),
        "source_date_epoch": epoch,
        "recipe": {key: value for key, value in asdict(recipe).items() if key not in ("drop", "without")},
        "recipe_digest": recipe.digest,
        "kernel": seen.kernel,
        "modules": seen.modules,
        "unpacked_size": seen.unpacked,
        "entries": seen.entries,
    }


def new_log(logs: Path, name: str) -> Path:
    """Logs outlive their build, whatever became of it."""
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"
    log.touch()
    return log
