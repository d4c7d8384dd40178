"""Restore: a head node again from a backup, on an empty machine or instead of the site that is there."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headnode import control, run
from headnode.errors import HeadnodeError, InvalidInput
from headnode.inventory import dumps
from headnode.paths import Paths
from headnode.sealedfile import Unlocking
from headnode.site import Site
from headnode.workflows import directorydump, publishing
from headnode.workflows.backup import CONFIG, DATABASE, DIRECTORY, Contents, Tell, opened, restored_site
from headnode.workflows.context import Context

# What SQLite keeps beside a database.
BESIDE = ("-wal", "-shm")


@dataclass(frozen=True)
class Prepared:
    """A backup that can be restored here: everything that could be refused has been looked at."""

    contents: Contents
    unpacked: Path
    site: Site
    # What stands where the backup will be put, and is set aside first; nothing, when an interrupted restore goes on.
    in_the_way: tuple[Path, ...] = ()
    database_taken: bool = False


@contextmanager
def prepared(paths: Paths, archive: Path, unlocking: Unlocking, *, replace: bool, tell: Tell) -> Iterator[Prepared]:
    """All of a restore but its first change, so that a dry run refuses what the real one would."""
    if control.running(paths):
        raise InvalidInput("the head node's services run here; nothing was changed",
                           hint="stop them first: Ctrl-C, or 'systemctl stop headnode.target'")  # fmt: skip
    tell("reading and proving the backup")
    with opened(paths, archive, unlocking) as (contents, place):
        site = restored_site(paths, place)
        refuse_unrestorable(contents, site)
        found = Prepared(contents, place, site)
        # Only the restore that was stopped goes on where it was; any other one is a new one.
        if not mark(paths).exists() or mark(paths).read_text() != begun(contents):
            there = tuple(path for path in (paths.site_file, paths.database, paths.directory) if path.exists())
            taken = site.database.url is not None and dumps.occupied(site.database.url)
            found = dataclasses.replace(found, in_the_way=there, database_taken=taken)
        if (found.in_the_way or found.database_taken) and not replace:
            raise InvalidInput(
                f"there is a site here already ({', '.join(map(str, found.in_the_way)) or 'in its database'}); "
                "nothing was changed",
                hint="use another machine or --root, or --replace to set this one aside",
            )
        yield found


def refuse_unrestorable(contents: Contents, site: Site) -> None:
    """What would stop a restore half-way, found before it begins."""
    if contents.database != dumps.kind_of(site.database.url):
        raise HeadnodeError(
            f"the backup holds a database of {contents.database}, but its site.yaml names one of "
            f"{dumps.kind_of(site.database.url)}"
        )
    if not contents.has_directory:
        return
    if site.directory.mode != "internal":
        raise HeadnodeError("the backup holds a directory, but the site that it describes has none")
    if not run.have("slapadd"):
        raise HeadnodeError("the backup holds a directory, and slapadd, which reads it in, is not installed here",
                            hint="apt install slapd")  # fmt: skip


def mark(paths: Paths) -> Path:
    """Says that a restore has begun, and of which backup."""
    return paths.state / "restore.unfinished"


def begun(contents: Contents) -> str:
    return f"{contents.created}\n"


def restore(context: Context, archive: Path, unlocking: Unlocking, *, replace: bool, tell: Tell) -> Contents:
    """All of it, onto a machine that has no site yet, or instead of the one it has.

    site.yaml and the mark of an unfinished restore are put in place together, so that a restore that was stopped
    half-way is simply run again.
    """
    paths = context.paths
    with prepared(paths, archive, unlocking, replace=replace, tell=tell) as found:
        set_aside(paths, found, tell)
        mark(paths).parent.mkdir(parents=True, exist_ok=True)
        mark(paths).write_text(begun(found.contents))
        tell("restoring the database")
        dumps.load(found.site.database.url, paths.database, found.unpacked / DATABASE)
        tell("restoring keys and site.yaml")
        put_config(paths, found.unpacked / CONFIG)
        # Whatever was live belongs to the site that was here before.
        tell("publishing, and removing what the site before had published")
        publishing.publish_changes(context, full=True)
        if found.contents.has_directory:
            tell("restoring the directory")
            directorydump.load(context, found.unpacked / DIRECTORY)
    with context.inventory.change(context.actor, context.cause) as change:
        change.record("restore", f"restored from the backup of {found.contents.created}")
    mark(paths).unlink()
    return found.contents


def set_aside(paths: Paths, found: Prepared, tell: Tell) -> None:
    if not found.in_the_way and not found.database_taken:
        return
    stamp = f"before-restore-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if found.database_taken:
        kept = paths.state / f"inventory.pgdump.{stamp}"
        dumps.dump(found.site.database.url, paths.database, kept)
        kept.chmod(0o600)
        tell(f"copied the database's own contents to {kept}")
    for path in moved(paths, found):
        kept = path.with_name(f"{path.name}.{stamp}")
        for end in BESIDE:
            # What was written last may be in SQLite's log alone, which it looks for under the database's name. The log
            # goes first: one that a crash left behind would be thrown away by the next restore.
            if (log := path.with_name(path.name + end)).exists():
                log.rename(kept.with_name(kept.name + end))
        path.rename(kept)
        tell(f"set {path} aside as {kept.name}")


def moved(paths: Paths, found: Prepared) -> list[Path]:
    """What is renamed before a restore: all of the configuration, not site.yaml alone."""
    if not found.in_the_way and not found.database_taken:
        return []
    return [path for path in (paths.config, paths.database, paths.directory) if path.exists()]


def put_config(paths: Paths, source: Path) -> None:
    """site.yaml comes last: with it there is a site."""
    paths.config.mkdir(parents=True, exist_ok=True, mode=0o755)
    files = [path for path in sorted(source.rglob("*")) if path.is_file()]
    for path in sorted(files, key=lambda path: path.name == paths.site_file.name):
        target = paths.config / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.replace(target)
