"""Import the media of distributions' installers into the image store."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from headnode import fields, run
from headnode.errors import InvalidInput, NotFound
from headnode.workflows import images
from headnode.workflows.context import Context
from images import media
from images.media import Medium, Progress
from images.recipes import SUITES
from images.signing import signer
from images.store import Image, scratch

PACKAGE = "debian-installer-{release}-netboot-{arch}"
# Inside that package, the installer that asks in plain text.
INSIDE = "usr/lib/debian-installer/images/{release}/{arch}/text/debian-installer/{arch}"


def import_medium(
    context: Context,
    file: Path | None,
    *,
    name: str | None,
    sha256: str | None,
    sums: Path | None,
    release: str | None,
    progress: Progress,
) -> Image:
    """The next version of a medium; whatever stops it, none appears."""
    if (file is None) == (release is None):
        raise InvalidInput("name a file, or a release with --debian", hint="headnode image import --help")
    if name is not None:
        fields.image_name(name)
    if file is not None:
        checked = media.verify(file, sha256, sums, progress)
        medium = media.identify(file)
        return publish(context, medium, name, file, f"{file.name}, SHA-256 {checked}", progress)
    return import_package(context, str(release), name, progress)


def publish(context: Context, medium: Medium, name: str | None, file: Path, source: str, progress: Progress) -> Image:
    with scratch(images.workplace(context), "medium") as place:
        filled = place / "medium"
        filled.mkdir()
        progress("taking out kernel and initrd")
        media.fill(medium, file, filled)
        if medium.whole:
            progress("copying the medium")
            shutil.copyfile(file, filled / "media.iso")
        return finish(context, medium, name, filled, source, progress)


def import_package(context: Context, release: str, name: str | None, progress: Progress) -> Image:
    """apt has checked the package's signature and checksum by the time it is there."""
    if ("debian", release) not in SUITES:
        known = ", ".join(number for distribution, number in SUITES if distribution == "debian")
        raise NotFound(f"there is no installer of Debian '{release[:20]}' here; known are {known}")
    package = PACKAGE.format(release=release, arch="amd64")
    with scratch(images.workplace(context), "medium") as place:
        progress(f"downloading {package}")
        run.run(["apt-get", "--option", "APT::Sandbox::User=root", "download", package], cwd=place, timeout=600)
        (archive,) = sorted(place.glob("*.deb"))
        progress("taking out kernel and initrd")
        run.run(["dpkg-deb", "--extract", archive, place / "package"], timeout=300)
        inside = place / "package" / INSIDE.format(release=release, arch="amd64")
        filled = place / "medium"
        filled.mkdir()
        shutil.copyfile(inside / "linux", filled / "vmlinuz")
        shutil.copyfile(inside / "initrd.gz", filled / "initrd")
        version = archive.name.split("_")[1].replace("%3a", ":")
        medium = Medium(
            "debian", release, "amd64", "preseed", f"Debian {release} netboot {version}", "linux", "initrd.gz"
        )
        return finish(context, medium, name, filled, f"{package} {version}", progress)


def finish(context: Context, medium: Medium, name: str | None, filled: Path, source: str, progress: Progress) -> Image:
    progress("checking, signing and publishing")
    built = datetime.now(UTC).isoformat(timespec="seconds")
    document = media.manifest(medium, built, source)
    return images.store(context).publish(name or medium.name, filled, document, signer(context.paths.config))
