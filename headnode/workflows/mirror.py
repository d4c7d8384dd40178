"""Mirror: carry what profiles need to a site without Internet, in one file, and serve it there."""

import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headnode import __version__
from headnode.effective import known_profile
from headnode.errors import HeadnodeError, InvalidInput, NotFound, shown
from headnode.files import sha256_of
from headnode.packagecache import proxy_for_builds
from headnode.workflows import gpu, images, plaintar
from headnode.workflows.context import Context
from images.mirror import Need, collect, differing, files_of, make_live, prove
from images.nvidia.stack import Kind
from images.ramdisk.recipe import ramdisk_recipe
from images.recipes import Recipe, image_recipe
from images.stages import Progress
from images.store import scratch

FORMAT = 1
MANIFEST, TREE = "manifest.json", "tree"
RAMDISK = "the ramdisk"


@dataclass(frozen=True)
class Mirror:
    """What an archive holds, by its own description."""

    profiles: tuple[str, ...]
    packages: int
    size: int
    sha256: str


def image_needs(context: Context, profiles: Sequence[str], kernel: str) -> list[Need]:
    needs = []
    for name in profiles or tuple(context.site.profiles):
        settings = images.profile_settings(context, known_profile(context.site, name))
        stack = gpu.stack_of_profile(context, name, settings)
        archives = gpu.archive_sources(context, stack.values(Kind.ARCHIVE))
        needs.append(Need(f"profile {name}", image_recipe(settings, kernel=kernel, stack=stack, archives=archives)))
    if not needs:
        raise NotFound("the site has no profiles, so there is nothing to carry")
    return needs


def export(
    context: Context, target: Path, profiles: Sequence[str], *, kernel: str, ramdisk: bool, progress: Progress
) -> Mirror:
    """Fetch, index, try it out, and write it to one file; whatever stops it before its end, no file appears."""
    if target.exists():
        raise InvalidInput(f"{shown(target)} exists already and is not overwritten", hint="choose another name")
    needs = image_needs(context, profiles, kernel)
    if ramdisk:
        needs.append(Need(RAMDISK, ramdisk_recipe(kernel)))
    with scratch(images.workplace(context), "mirror") as temporary:
        tree = collect(needs, temporary, proxy=proxy_for_builds(context.site), progress=progress)
        prove(needs, tree, temporary, progress)
        progress("writing the archive")
        chosen = tuple(profiles or context.site.profiles)
        return write(target, tree, chosen, needs)


def write(target: Path, tree: Path, profiles: tuple[str, ...], needs: Sequence[Need]) -> Mirror:
    files = dict(files_of(tree))
    about = {
        "format": FORMAT, "headnode": __version__, "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "profiles": profiles, "files": {name: sha256_of(path) for name, path in files.items()},
        "needs": [described(need) for need in needs],
    }  # fmt: skip
    draft = target.with_name(f"{target.name}.part")
    try:
        with draft.open("wb") as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
            text = json.dumps(about, indent=1).encode()
            plaintar.add(tar, MANIFEST, len(text), 0o644, io.BytesIO(text))
            for name, path in files.items():
                with path.open("rb") as content:
                    plaintar.add(tar, f"{TREE}/{name}", path.stat().st_size, 0o644, content)
        draft.rename(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise HeadnodeError(f"{target} cannot be written: {error.strerror}") from error
    packages = sum(name.endswith(".deb") for name in files)
    return Mirror(profiles, packages, target.stat().st_size, sha256_of(target))


def described(need: Need) -> dict[str, Any]:
    recipe = need.recipe
    return {
        "name": need.name, "os": recipe.os, "suite": recipe.suite, "architecture": recipe.architecture,
        "packages": recipe.packages, "kernel": recipe.kernel, "variant": recipe.variant, "pins": recipe.pins,
    }  # fmt: skip


def need_from(about: dict[str, Any]) -> Need:
    recipe = Recipe(
        os=str(about["os"]), suite=str(about["suite"]), architecture=str(about["architecture"]),
        packages=tuple(map(str, about["packages"])), kernel=str(about["kernel"]), variant=str(about["variant"]),
        pins=tuple(map(str, about["pins"])),
    )  # fmt: skip
    return Need(str(about["name"]), recipe)


def bring_in(context: Context, archive: Path, *, sha256: str | None, progress: Progress) -> Mirror:
    """Prove every byte, try every build with nothing but it, and only then make it live."""
    progress("reading the archive")
    found = digest_and_refuse(archive, sha256)
    with scratch(images.workplace(context), "mirror") as temporary:
        unpack(archive, temporary)
        try:
            about = json.loads((temporary / MANIFEST).read_text())
            digests, needs = dict(about["files"]), [need_from(need) for need in about["needs"]]
            profiles = tuple(str(name) for name in about["profiles"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HeadnodeError(f"{shown(archive)} does not say what is in it, or is of a newer Headnode") from error
        if wrong := differing(temporary / TREE, digests):
            raise HeadnodeError(f"{shown(archive)} is damaged: {', '.join(wrong[:3])} is not as it was exported")
        prove(needs, temporary / TREE, temporary, progress)
        make_live(temporary / TREE, context.paths.mirror, found[:16])
    packages = sum(name.endswith(".deb") for name in digests)
    with context.inventory.change(context.actor, context.cause) as change:
        change.record("mirror", f"imported {packages} packages for {', '.join(profiles)}")
    return Mirror(profiles, packages, archive.stat().st_size, found)


def digest_and_refuse(archive: Path, sha256: str | None) -> str:
    try:
        found = sha256_of(archive)
    except OSError as error:
        raise InvalidInput(f"{shown(archive)} cannot be read: {error.strerror}") from None
    if sha256 is not None and found != sha256.strip().lower():
        raise InvalidInput(f"{shown(archive)} has the digest {found}, not the one that was given; nothing was changed")
    return found


def unpack(archive: Path, target: Path) -> None:
    try:
        with archive.open("rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            plaintar.unpack(tar, target)
    except (tarfile.TarError, EOFError) as error:
        raise HeadnodeError(f"{shown(archive)} is no archive that 'headnode mirror export' made: {error}") from None
