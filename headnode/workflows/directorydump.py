"""The directory in a backup: slapd's own programs write it out while it runs, and read it in while it does not."""

import shutil
from pathlib import Path

from headnode import run
from headnode.errors import HeadnodeError
from headnode.paths import Paths
from headnode.workflows.context import Context


def configuration(paths: Paths) -> Path:
    return paths.published / "slapd/slapd.conf"


def place(paths: Paths) -> Path:
    return paths.state / "directory"


def dump(paths: Paths, target: Path) -> None:
    """Everything, with what only slapd itself sees; nothing when this head node has no directory."""
    if configuration(paths).exists() and (place(paths) / "data").is_dir():
        run.run(["slapcat", "-f", configuration(paths), "-l", target], timeout=600)
        target.chmod(0o600)


def load(context: Context, source: Path) -> None:
    paths = context.paths
    if not configuration(paths).exists():
        raise HeadnodeError("the backup holds a directory, but the site that it describes has none")
    data = place(paths) / "data"
    # What an interrupted restore left is of no use: slapadd goes on with nothing.
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True, mode=0o700)
    run.run(["slapadd", "-q", "-f", configuration(paths), "-l", source], timeout=3600)
