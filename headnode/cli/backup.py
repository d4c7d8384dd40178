"""headnode backup, restore."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import confirm, context, dry_run_option, given_password, note, warn, yes_option
from headnode.errors import InvalidInput

if TYPE_CHECKING:
    from headnode.sealedfile import Unlocking
    from headnode.workflows.backup import Contents

FILE = click.Path(path_type=Path, dir_okay=False)


def key_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--passphrase-file", type=FILE, help="File with the passphrase on its first line; asked for when not given."
    )(command)
    return click.option("--key-file", type=FILE, help="Key that 'headnode backup key' made, instead of a passphrase.")(
        command
    )


class WithDefault(click.Group):
    """`headnode backup FILE` is the everyday use; the other commands are named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group(cls=WithDefault)
def backup() -> None:
    """Save everything that cannot be made again in one encrypted file.

    'headnode backup FILE' is short for 'headnode backup create FILE'.

    \b
    Examples:
      headnode backup key /root/backup.key
      headnode backup /mnt/usb/cluster.hnb --key-file /root/backup.key
      headnode backup verify /mnt/usb/cluster.hnb --key-file /root/backup.key
    """


@backup.command()
@click.argument("file", type=FILE)
@key_options
@click.pass_context
def create(ctx: click.Context, file: Path, key_file: Path | None, passphrase_file: Path | None) -> None:
    """Write a backup while everything runs.

    Database, directory, secrets, certificate authority, host keys and site.yaml, sealed with a passphrase or a key
    file. Images, homes, recordings and caches are not in it.

    \b
    Examples:
      headnode backup /mnt/usb/cluster.hnb
      headnode backup create /mnt/usb/cluster.hnb --passphrase-file /root/backup.passphrase
      headnode backup create cluster-$(date +%F).hnb --key-file /root/backup.key
    """
    from headnode.workflows import backup as workflow

    at = context(ctx)
    made = workflow.create(at, file, unlocking(key_file, passphrase_file, twice=True), note)
    warn([f"{path} is named in site.yaml and is not in the backup" for path in workflow.left_out(at)])
    note(f"Wrote {file}: {summary(made)}. Keep its key somewhere else: without it nobody can open the backup.")


@backup.command()
@click.argument("file", type=FILE)
@key_options
@click.pass_context
def verify(ctx: click.Context, file: Path, key_file: Path | None, passphrase_file: Path | None) -> None:
    """Read a backup to its end, as a restore would.

    \b
    Examples:
      headnode backup verify /mnt/usb/cluster.hnb
      headnode backup verify cluster.hnb --key-file /root/backup.key
    """
    from headnode.workflows import backup as workflow

    found = workflow.verify(context(ctx).paths, file, unlocking(key_file, passphrase_file))
    note(f"{file} is whole: {summary(found)}.")


@backup.command()
@click.argument("file", type=FILE)
def key(file: Path) -> None:
    """Make a key for backups that nobody has to remember.

    Keep a copy off this machine, on paper or in a safe: it is one line.

    \b
    Examples:
      headnode backup key /root/backup.key
    """
    from headnode.sealedfile import create_key_file

    create_key_file(file)
    note(f"Wrote {file}. Keep a copy somewhere else: a backup is lost with its key.")


@click.command()
@click.argument("file", type=FILE)
@key_options
@click.option("--replace", is_flag=True, help="Set aside the site that is here, and restore in its place.")
@dry_run_option
@yes_option
@click.pass_context
def restore(
    ctx: click.Context,
    file: Path,
    key_file: Path | None,
    passphrase_file: Path | None,
    replace: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Bring a head node back from a backup.

    The whole backup is read and proven before anything is changed. A machine that has a site already is refused unless
    --replace is given; what was there is then kept beside it. Run it again if it was interrupted.

    \b
    Examples:
      headnode restore /mnt/usb/cluster.hnb --dry-run
      headnode restore /mnt/usb/cluster.hnb --key-file /root/backup.key --yes
      headnode --root /tmp/drill restore /mnt/usb/cluster.hnb
    """
    from headnode.publish import everything_in
    from headnode.workflows import restoring

    at = context(ctx)
    opener = unlocking(key_file, passphrase_file)
    if dry_run:
        with restoring.prepared(at.paths, file, opener, replace=replace, tell=note) as found:
            for path in restoring.moved(at.paths, found):
                note(f"Would set {path} aside.")
            if found.database_taken:
                note(f"Would copy the contents of database.url's server to {at.paths.state}, and replace them.")
            note(f"Would restore {summary(found.contents)} below {at.paths.root}.")
            if everything_in(at.paths.published):
                note(f"Would remove from {at.paths.published} what the restored site does not publish.")
        return
    confirm(f"Restore {file} below {at.paths.root}?", yes)
    done = restoring.restore(at, file, opener, replace=replace, tell=note)
    note(f"Restored {summary(done)}. Next: 'headnode check', then 'headnode up' or 'systemctl start headnode.target'.")


def unlocking(key_file: Path | None, passphrase_file: Path | None, *, twice: bool = False) -> "Unlocking":
    from headnode import vault
    from headnode.sealedfile import Unlocking

    vault.leave_no_core()
    if key_file and passphrase_file:
        raise InvalidInput("a backup has one key; give --key-file or --passphrase-file, not both")
    if key_file:
        return Unlocking.key_file(key_file)
    instead = "--passphrase-file FILE or --key-file FILE"
    return Unlocking.passphrase(given_password(passphrase_file, "passphrase", instead, twice=twice))


def summary(found: "Contents") -> str:
    parts = [f"cluster {found.cluster}", f"taken {found.created}", f"{len(found.files)} files"]
    return ", ".join([*parts, "with its directory" if found.has_directory else "without a directory"])
