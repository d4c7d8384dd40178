"""Publishing as a transaction: the only module that writes live configuration.

New files are written beside the live tree, judged by the programs that will read them, and then renamed into
place one by one, so that a reader sees an old file or a new one and never half of one. A journal written
before the first rename lets the next publisher finish what a crash interrupted; copies of what was replaced
let this one take everything back when a reload fails.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headnode.errors import HeadnodeError, PublishFailed
from headnode.files import write_whole
from headnode.model import File, Files

# Above this many files one sync of the file system is cheaper than a sync of each file.
SYNC_EACH = 64

Check = Callable[[Path], list[str]]
Reload = Callable[[set[str]], None]
"""Tells the programs that read them which files have changed."""


@dataclass(frozen=True)
class Workplace:
    """The live tree, and the directories beside it (same file system) that a transaction needs."""

    live: Path

    @property
    def transaction(self) -> Path:
        return self.live.with_name(self.live.name + ".transaction")

    @property
    def new(self) -> Path:
        return self.transaction / "new"

    @property
    def old(self) -> Path:
        return self.transaction / "old"

    @property
    def journal(self) -> Path:
        return self.transaction / "journal.json"


@contextmanager
def publishers_lock(place: Workplace) -> Iterator[None]:
    """Publishers queue here. The kernel drops the lock with its holder, so a crash leaves nothing locked."""
    try:
        place.live.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place.live.with_name(place.live.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise PublishFailed(f"cannot publish to {place.live}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def differing(live: Path, files: Files) -> dict[str, File]:
    """Those of the files that are not on disk as they should be."""
    return {path: file for path, file in files.items() if not same(confined(live, path), file)}


def same(path: Path, file: File) -> bool:
    try:
        return path.read_bytes() == file.content and path.stat().st_mode & 0o7777 == file.mode
    except OSError:
        return False  # whatever stands in its place, it is not the file


def everything_in(live: Path) -> dict[str, bool]:
    """The path of all there is but directories → whether it is a link to one. What a link leads to is not ours to
    look at."""
    return {
        str(Path(directory, name).relative_to(live)): name in below
        for directory, below, files in os.walk(live)
        for name in (*files, *(name for name in below if Path(directory, name).is_symlink()))
    }


def refuse_blocked(live: Path, write: Collection[str], remove: Collection[str]) -> None:
    """What would end the swap half-way, said before it begins: only a full publish clears somebody's files away."""
    going = set(remove)
    for path in parents(write) - going:
        if os.path.lexists(live / path) and not (live / path).is_dir():
            raise in_the_way(f"{live / path} is no directory, and published files belong below it")
    for path in write:
        if is_directory(live / path) and any(f"{path}/{name}" not in going for name in everything_in(live / path)):
            raise in_the_way(f"{live / path} is a directory with something in it, and a published file belongs there")


def in_the_way(what: str) -> PublishFailed:
    hint = "'headnode diff' shows what is there; 'headnode publish --full' removes it"
    return PublishFailed(f"{what}; what was live before still is", hint=hint)


def parents(paths: Iterable[str]) -> set[str]:
    return {str(parent) for path in paths for parent in PurePosixPath(path).parents}


def prune(live: Path) -> None:
    """Directories that hold nothing go, the deepest first; one with anything in it cannot be removed this way."""
    for directory, below, _ in os.walk(live, topdown=False):
        for name in below:
            with suppress(OSError):
                Path(directory, name).rmdir()


def publish(place: Workplace, write: Files, remove: Collection[str], check: Check, reload: Reload) -> list[str]:
    """Make these files live and those disappear, or change nothing; returns the checkers' warnings."""
    try:
        stage(place, write)
        warnings = check(place.new)
        begin(place, list(write), list(remove))
    except OSError as error:
        discard(place)
        raise PublishFailed(
            f"writing new configuration below {place.transaction} failed ({error.strerror}); "
            "what was live before still is",
            hint="free some space and run 'headnode publish' again",
        ) from error
    except HeadnodeError:
        discard(place)
        raise
    finish(place, write, remove, reload)
    return warnings


def finish(place: Workplace, write: Collection[str], remove: Collection[str], reload: Reload) -> None:
    """Go through with what the journal promises; the journal goes only when everybody has been told."""
    touched = {*write, *remove}
    try:
        swap(place, write, remove)
    except OSError as error:
        take_back(place, write, remove)
        raise PublishFailed(f"rolled back, because {said(error)}") from error
    try:
        reload(touched)
    except HeadnodeError as error:
        take_back(place, write, remove)
        # Some programs may have read the new files before another refused.
        with suppress(HeadnodeError):
            reload(touched)
        raise PublishFailed(f"rolled back, because reloading failed: {error.message}", hint=error.hint) from error
    discard(place)


def take_back(place: Workplace, write: Collection[str], remove: Collection[str]) -> None:
    try:
        roll_back(place, write, remove)
    except OSError as error:
        # The journal stays: the next publisher goes through with what could not be taken back.
        raise PublishFailed(
            f"neither the new nor the old configuration could be put in place below {place.live}: {said(error)}",
            hint="put the file system right and run 'headnode publish' again",
        ) from error
    discard(place)


def said(error: OSError) -> str:
    return f"{error.filename or 'a file'}: {error.strerror}"


def recover(place: Workplace, reload: Reload) -> bool:
    """Finish or forget what an interrupted publisher left; true when files may have changed unannounced."""
    try:
        journal = json.loads(place.journal.read_text())
        write, remove = list(journal["write"]), list(journal["remove"])
    except (FileNotFoundError, NotADirectoryError):
        discard(place)
        return False
    except (ValueError, LookupError, TypeError):
        # It was promised and cannot be read: only comparing every file tells what is live.
        discard(place)
        return True
    # Every check had passed when the journal was written, so going forward is right.
    finish(place, write, remove, reload)
    return True


def stage(place: Workplace, files: Files) -> None:
    discard(place)
    made: set[Path] = set()
    for path, file in files.items():
        target = confined(place.new, path)
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(file.content)
            stream.flush()
            os.fchmod(descriptor, file.mode)
            if len(files) <= SYNC_EACH:
                os.fsync(descriptor)
    if len(files) > SYNC_EACH:
        os.sync()


def begin(place: Workplace, write: Collection[str], remove: Collection[str]) -> None:
    """From here on the transaction will happen, whoever finishes it."""
    place.transaction.mkdir(parents=True, exist_ok=True)
    promise = {"write": sorted(write), "remove": sorted(remove)}
    write_whole(place.journal, json.dumps(promise).encode(), 0o600)


def swap(place: Workplace, write: Collection[str], remove: Collection[str]) -> None:
    """Rename every new file into place; running it again goes on where it stopped.

    What goes goes last, so that nobody finds neither the old nor the new, but for what is in the way of a new file.
    """
    first = blocking(write, remove)
    for path in first:
        take_away(place, path)
    for path in write:
        staged, target = confined(place.new, path), confined(place.live, path)
        if staged.exists():
            make_room(target)
            keep(place, path)
            staged.replace(target)
    for path in remove:
        if path not in first:
            take_away(place, path)


def blocking(write: Collection[str], remove: Collection[str]) -> set[str]:
    """Of what goes, files where a directory will be, and files in a directory where a file will be."""
    above, new = parents(write), set(write)
    return {path for path in remove if path in above or new & parents([path])}


def take_away(place: Workplace, path: str) -> None:
    target = confined(place.live, path)
    if is_directory(target):
        return  # one of ours, from before the swap was interrupted
    keep(place, path)
    with suppress(NotADirectoryError):
        target.unlink(missing_ok=True)


def make_room(target: Path) -> None:
    """For a file: its directory, and no directory in its place unless there is something in it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_directory(target):
        prune(target)
        target.rmdir()


def is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def keep(place: Workplace, path: str) -> None:
    """A second name for the live file, so that it can be put back."""
    file, kept = confined(place.live, path), confined(place.old, path)
    if os.path.lexists(file):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError, FileNotFoundError):
            os.link(file, kept)


def roll_back(place: Workplace, write: Collection[str], remove: Collection[str]) -> None:
    """Undo as much of the swap as was done; a file that is still staged was never touched."""
    for path in [*write, *remove]:
        kept, target = confined(place.old, path), confined(place.live, path)
        # A link that leads nowhere was somebody's file, too; a directory only holds others that were kept.
        if os.path.lexists(kept) and not is_directory(kept):
            make_room(target)
            kept.replace(target)
        elif path in write and not confined(place.new, path).exists():
            target.unlink(missing_ok=True)


def discard(place: Workplace) -> None:
    """The journal goes first: without it a leftover is rubbish, with it a promise."""
    with suppress(FileNotFoundError, NotADirectoryError):
        place.journal.unlink()
    shutil.rmtree(place.transaction, ignore_errors=True)


def confined(root: Path, path: str) -> Path:
    """A path below the root, and nowhere else."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\0" in path:
        raise PublishFailed(f"the file name '{path}' leads outside {root}")
    return root / pure
