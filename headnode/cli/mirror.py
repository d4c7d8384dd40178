"""headnode mirror: export, import."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headnode.cli.common import ProfileType, confirm, context, note, yes_option
from headnode.cli.images import kernel_option, megabytes, progress_lines

if TYPE_CHECKING:
    from headnode.workflows.mirror import Mirror

FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def mirror() -> None:
    """Carry packages to a site without Internet.

    \b
    Examples:
      headnode mirror export /mnt/usb/packages.tar
      headnode mirror import /mnt/usb/packages.tar --sha256 0f1e…
    """


@mirror.command()
@click.argument("file", type=FILE)
@click.option(
    "--profile", "profiles", type=ProfileType(), multiple=True, help="Only for this profile; repeat for more."
)
@kernel_option
@click.option("--no-ramdisk", is_flag=True, help="Leave out what the ramdisk is built from.")
@click.pass_context
def export(ctx: click.Context, file: Path, profiles: tuple[str, ...], kernel: str, no_ramdisk: bool) -> None:
    """Write the packages that profiles need to one file.

    Run it where there is Internet, with the same site.yaml. Signatures are checked by apt while fetching; the digest
    that is printed at the end proves the file at the other side.

    \b
    Examples:
      headnode mirror export /mnt/usb/packages.tar
      headnode mirror export packages.tar --profile gpu --profile login
    """
    from headnode.workflows import mirror as workflow

    with progress_lines() as progress:
        made = workflow.export(
            context(ctx), file, profiles, kernel=kernel, ramdisk=not no_ramdisk, progress=progress
        )  # fmt: skip
    note(f"Wrote {file}: {summary(made)}.")
    click.echo(made.sha256)


@mirror.command("import")
@click.argument("file", type=FILE)
@click.option("--sha256", help="The digest that the export printed; another file is refused.")
@yes_option
@click.pass_context
def import_(ctx: click.Context, file: Path, sha256: str | None, yes: bool) -> None:
    """Serve the packages of a file that 'headnode mirror export' wrote.

    Every file is compared with its digest, and every profile's packages are tried with no other source, before anything
    changes. It takes the place of what was imported before. With 'packages.mirror: head' in site.yaml, nodes and image
    builds use it and nothing else.

    \b
    Examples:
      headnode mirror import /mnt/usb/packages.tar --sha256 0f1e…
    """
    from headnode.workflows import mirror as workflow

    at = context(ctx)
    if sha256 is None:
        confirm("No --sha256 was given, so this file could be anybody's. Serve its packages to all nodes?", yes)
    with progress_lines() as progress:
        found = workflow.bring_in(at, file, sha256=sha256, progress=progress)
    note(f"Imported {file}: {summary(found)}.")
    if at.site.packages.mirror != "head":
        note("To use it, say 'mirror: head' under 'packages' in site.yaml, then 'headnode publish'.")


def summary(made: "Mirror") -> str:
    return f"{made.packages} packages for {', '.join(made.profiles)}, {megabytes(made.size)}"
