"""Home directories on the head node: where somebody's home is, and the one place that makes it."""

import os
import re
import shutil
from pathlib import Path

from headnode.errors import HeadnodeError, InvalidField
from headnode.paths import Paths
from headnode.shares import HOME, served
from headnode.site import Site

USER = re.compile(r"[a-z_][a-z0-9_.-]{0,31}", re.ASCII)
MODE = 0o700


def home_on_node(user: str) -> str:
    """What the directory says of somebody's home: the same on every node."""
    return f"{HOME}/{plain(user)}"


def home_directory(site: Site, paths: Paths, user: str) -> Path | None:
    """Where the head node has somebody's home; nothing when another server has it."""
    name = plain(user)
    share = next((share for share in served(site) if share.path == HOME), None)
    return paths.below_root(share.directory) / name if share else None


def plain(user: str) -> str:
    """A name that is one component of a path, and nothing else."""
    if not USER.fullmatch(user):
        raise InvalidField("user", user, "use up to 32 lower-case letters, digits and . _ -, such as alice")
    return user


def make_home(home: Path, uid: int, gid: int, skeleton: Path = Path("/etc/skel")) -> bool:
    """Make somebody's home; false when it is there and already theirs. Whatever is in it is never touched.

    It appears whole: filled beside its place under a name nobody has, then renamed.
    """
    try:
        if home.is_symlink() or home.exists():
            refuse_foreign(home, uid)
            return False
        # Where homes are is root's alone, so that nobody can put a link in the way.
        home.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        draft = home.with_name(f".{home.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=MODE)
        for file in sorted(skeleton.iterdir()) if skeleton.is_dir() else ():
            if file.is_file() and not file.is_symlink():
                target = draft / file.name
                target.write_bytes(file.read_bytes())
                target.chmod(0o644)
                os.chown(target, uid, gid)
        draft.chmod(MODE)
        os.chown(draft, uid, gid)
        draft.rename(home)
    except OSError as error:
        raise HeadnodeError(
            f"the home directory {home} cannot be made: {error.strerror}", hint="run as root"
        ) from error
    return True


def refuse_foreign(home: Path, uid: int) -> None:
    status = home.lstat()
    if home.is_symlink() or not home.is_dir():
        raise HeadnodeError(f"{home} is there and is no directory", hint="move it away")
    if status.st_uid != uid:
        raise HeadnodeError(
            f"{home} is there and belongs to UID {status.st_uid}, not {uid}",
            hint="move it away, or give it to its new owner with chown -R",
        )
