"""headnode image: build, import, seed, list, show, diff, verify, remove, gc, ramdisk."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import (
    NodeSetType,
    ProfileType,
    confirm,
    context,
    dry_run_option,
    emit,
    note,
    output_option,
    yes_option,
)
from headnode.errors import shown

if TYPE_CHECKING:
    from headnode.workflows.context import Context
    from images.store import Image

COLUMNS = ["name", "built", "os", "method", "kernel", "packages", "size", "unpacked"]
kernel_option = click.option(
    "--kernel", type=click.Choice(["generic", "cloud"]), default="generic", show_default=True,
    help="generic drives real servers; cloud is small and drives virtual machines only.",
)  # fmt: skip


@click.group()
def image() -> None:
    """Build images and the ramdisk, and look after them.

    \b
    Examples:
      headnode image ramdisk
      headnode image build gpu
      headnode image list
      headnode image diff gpu@2 gpu@3
      headnode image gc --dry-run
    """


@image.command()
@click.argument("name")
@click.option(
    "--profile", type=ProfileType(), help="Take OS and packages from this profile; default: the one that uses it."
)
@kernel_option
@click.pass_context
def build(ctx: click.Context, name: str, profile: str | None, kernel: str) -> None:
    """Build the next version of an image.

    Everything comes from the distribution's signed archive, through the site's package cache or with this machine's own
    apt settings. With SOURCE_DATE_EPOCH set, the same packages give the same bytes. A build that fails or is killed
    leaves no version behind; its log stays.

    \b
    Examples:
      headnode image build gpu
      headnode image build login --profile login
      SOURCE_DATE_EPOCH=1760000000 headnode image build gpu
    """
    from headnode.workflows import images

    with progress_lines() as progress:
        built = images.build(context(ctx), name, profile=profile, kernel=kernel, progress=progress)
    note(f"Built {built.reference}: {megabytes(built.size)}, {len(built.packages)} packages, kernel "
         f"{built.manifest['kernel']}.")  # fmt: skip
    click.echo(built.reference)


@image.command("list")
@click.argument("name", required=False)
@output_option()
@click.pass_context
def list_(ctx: click.Context, name: str | None, output: str) -> None:
    """List images.

    \b
    Examples:
      headnode image list
      headnode image list gpu -o json
    """
    from headnode.workflows import images

    at = context(ctx)
    found = images.list_images(at, name)
    if not found and output in ("table", "wide"):
        note(none_there(at, name))
        return
    emit([row(one) for one in found], output, COLUMNS, ["sha256"])


@image.command()
@click.argument("reference")
@click.option("--packages", is_flag=True, help="Its packages instead.")
@click.option("--sbom", is_flag=True, help="Its bill of materials instead, as CycloneDX, for vulnerability scanners.")
@output_option("yaml")
@click.pass_context
def show(ctx: click.Context, reference: str, packages: bool, sbom: bool, output: str) -> None:
    """Show an image, its packages or its bill of materials.

    \b
    Examples:
      headnode image show gpu@3
      headnode image show gpu --packages -o csv
      headnode image show gpu@3 --sbom > gpu@3.cdx.json
    """
    from headnode.workflows import images

    found = images.find(context(ctx), reference)
    if sbom:
        click.echo(images.bill_of_materials(found), nl=False)
    elif packages:
        emit(found.packages, output, ["name", "version", "architecture"])
    else:
        emit([{**row(found), "url": found.url, "manifest": dict(found.manifest)}], output, COLUMNS)


@image.command()
@click.argument("before")
@click.argument("after")
@output_option()
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, output: str) -> None:
    """Show which packages differ between two images.

    \b
    Examples:
      headnode image diff gpu@2 gpu@3
      headnode image diff gpu@2 gpu -o json
    """
    from headnode.workflows import images

    found = images.differences(context(ctx), before, after)
    if not found and output in ("table", "wide"):
        note("Both have the same packages.")
        return
    rows = [{"name": d.name, "change": d.kind, "before": d.before, "after": d.after} for d in found]
    emit(rows, output, ["change", "name", "before", "after"])


@image.command()
@click.argument("reference", required=False)
@click.pass_context
def verify(ctx: click.Context, reference: str | None) -> None:
    """Check signatures and checksums of an image, or of all.

    Exit code 0 when everything is as it was built, 1 otherwise.

    \b
    Examples:
      headnode image verify gpu@3
      headnode image verify
    """
    from headnode.workflows import images

    found = images.verify(context(ctx), reference)
    for name, problems in found.items():
        click.echo(f"{name}: {'; '.join(problems) or 'as it was built'}")
    ctx.exit(1 if any(found.values()) else 0)


@image.command()
@click.option(
    "--keep", type=click.IntRange(1), default=3, show_default=True, help="Newest versions of each image to keep."
)
@dry_run_option
@yes_option
@click.pass_context
def gc(ctx: click.Context, keep: int, dry_run: bool, yes: bool) -> None:
    """Remove old versions that nobody uses.

    The newest versions stay, and every version that a profile, group or node names. What killed builds left behind goes
    in any case.

    \b
    Examples:
      headnode image gc --dry-run
      headnode image gc --keep 2 --yes
    """
    from headnode.workflows import images

    at = context(ctx)
    found = images.garbage(at, keep)
    names = [one.reference for one in found.images] + [f"ramdisk {path.name}" for path in found.ramdisks]
    for name in names:
        click.echo(name)
    if dry_run:
        note(f"Would free {megabytes(found.size)}.")
        return
    if names:
        confirm(f"Remove {len(names)} and free {megabytes(found.size)}?", yes)
    size = found.size
    images.collect(at, found)
    note(f"Freed {megabytes(size)}." if names else "There was nothing to remove.")


@image.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("--name", help="What to call it; default: distribution and release, such as ubuntu-24.04.")
@click.option("--sha256", help="The checksum that the file must have.")
@click.option(
    "--sums", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A SHA256SUMS file that lists it."
)
@click.option(
    "--debian", "release", metavar="RELEASE", help="Take Debian's installer from Debian's own package instead."
)
@click.pass_context
def import_(
    ctx: click.Context, file: Path | None, name: str | None, sha256: str | None, sums: Path | None, release: str | None
) -> None:
    """Import the medium of a distribution's installer.

    Ubuntu's live-server ISO (22.04, 24.04) and Debian's netboot ISO (mini.iso) are known; anything else is refused with
    what was found in it. A checksum is required; a package comes with apt's own. Media are versioned, listed, verified
    and removed like images, and deployed to nodes whose 'method' is autoinstall or preseed.

    \b
    Examples:
      headnode image import ubuntu-24.04.3-live-server-amd64.iso --sums SHA256SUMS
      headnode image import mini.iso --sha256 0123…
      headnode image import --debian 12
    """
    from headnode.workflows import media

    with progress_lines() as progress:
        made = media.import_medium(
            context(ctx), file, name=name, sha256=sha256, sums=sums, release=release, progress=progress
        )
    note(f"Imported {made.reference}: {made.manifest['title']}, for method {made.method}, {megabytes(made.size)}.")
    click.echo(made.reference)


@image.command()
@click.argument("node", type=NodeSetType())
@click.option(
    "--output", "target", type=click.Path(path_type=Path, dir_okay=False), help="File to write; default: NODE-seed.iso."
)
@click.option("--cidata", is_flag=True, help="Instead, the answers for Ubuntu's own medium, as a volume called cidata.")
@click.pass_context
def seed(ctx: click.Context, node: str, target: Path | None, cidata: bool) -> None:
    """Write a medium for a node that cannot start over the network.

    A small image for CD, USB stick or a BMC's virtual media, for BIOS and UEFI: it starts iPXE, which asks this
    head node what to do, as a network boot would. With --cidata, the answers of the deployment that waits, for a
    machine that is started from Ubuntu's own medium; that file holds secrets and is readable by you alone.

    \b
    Examples:
      headnode image seed gpu07
      headnode image seed gpu07 --output /srv/media/gpu07.iso
      headnode image seed gpu07 --cidata --output gpu07-answers.iso
    """
    from headnode.workflows import seeding
    from headnode.workflows.choosing import select

    at = context(ctx)
    for found in select(at, node):
        place = (target or Path(f"{found.name}-{'cidata' if cidata else 'seed'}.iso")).absolute()
        write = seeding.write_cidata if cidata else seeding.write_bootable
        made = write(at, found, place)
        note(f"Wrote {made} ({megabytes(made.stat().st_size)}).")


@image.command()
@click.argument("reference")
@dry_run_option
@yes_option
@click.pass_context
def remove(ctx: click.Context, reference: str, dry_run: bool, yes: bool) -> None:
    """Remove one version of an image or medium.

    Refused while a profile, group or node names that version. Its number is never given again.

    \b
    Examples:
      headnode image remove ubuntu-24.04@1 --dry-run
      headnode image remove gpu@2 --yes
    """
    from headnode.workflows import images

    at = context(ctx)
    found = images.removable(at, reference)
    if dry_run:
        note(f"Would remove {found.reference} and free {megabytes(found.size)}.")
        return
    confirm(f"Remove {found.reference} and free {megabytes(found.size)}?", yes)
    images.store(at).remove(found)
    note(f"Removed {found.reference}.")


@image.command()
@kernel_option
@click.option("--firmware", is_flag=True, help="With firmware files for network and storage cards that need them.")
@click.pass_context
def ramdisk(ctx: click.Context, kernel: str, firmware: bool) -> None:
    """Build the ramdisk that inspects, deploys and rescues nodes.

    It is live as soon as it is complete: nodes load it at their next network boot.

    \b
    Examples:
      headnode image ramdisk
      headnode image ramdisk --firmware
      headnode image ramdisk --kernel cloud
    """
    from headnode.workflows import images

    with progress_lines() as progress:
        place = images.build_ramdisk(context(ctx), kernel=kernel, firmware=firmware, progress=progress)
    sizes = ", ".join(f"{name} {megabytes((place / name).stat().st_size)}" for name in ("vmlinuz", "initrd"))
    note(f"The ramdisk is live in {place}: {sizes}.")


def none_there(at: "Context", name: str | None) -> str:
    """And how to get one: a name that nobody uses is most likely a slip of the hand, and not built."""
    from headnode.workflows import images

    used = images.names_in_use(at)
    if name and name not in used:
        said = f"There is no image {shown(name)}, and no profile, group or node uses one of that name"
        return f"{said}; in use are {', '.join(sorted(used))}."
    wanted = name or next((profile.image for profile in at.site.profiles.values() if profile.image), "base")
    known = f"There is no image '{name}'" if name else "There are no images"
    return f"{known} yet; 'headnode image build {wanted}' makes one."


def row(found: "Image") -> dict[str, Any]:
    return {
        "name": found.reference,
        "built": found.manifest["built"],
        "os": found.system,
        "method": found.method,
        "kernel": found.kernel,
        "packages": len(found.packages),
        "size": found.size,
        "unpacked": found.unpacked_size,
        "sha256": found.sha256,
    }


def megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


class progress_lines:
    """On a terminal a bar with the stage and its seconds, one line for each stage anywhere else; on stderr."""

    def __enter__(self) -> "progress_lines":
        self._begun = time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (
                SpinnerColumn(),
                BarColumn(),
                TextColumn("{task.fields[share]}"),
                TextColumn("{task.description}"),
            )
            self._bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
            # Until a share of the whole is told there is none to show, and the bar only moves.
            self._task = self._bar.add_task("starting", total=None, share="")
            self._bar.start()
        return self

    def __call__(self, stage: str, /) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=stage)
        else:
            note(f"{time.monotonic() - self._begun:6.1f} s  {stage}")

    def reached(self, share: float, /) -> None:
        if self._bar is not None:
            self._bar.update(self._task, total=1.0, completed=share, share=f"{share:4.0%}")

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
