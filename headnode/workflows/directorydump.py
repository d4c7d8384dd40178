"""The directory in a backup: slapd's own programs write it out while it runs, and read it in while it does not."""

import shutil
from pathlib import Path

from headnode import run
from headnode.directory import server
from headnode.errors import HeadnodeError
from headnode.paths import Paths
from headnode.workflows.context import Context


def dump(paths: Paths, target: Path) -> None:
    """Everything, with what only slapd itself sees; nothing when this head node has no directory."""
    if (paths.published / server.CONFIG).exists() and (paths.directory / "data").is_dir():
        run.run(["slapcat", "-f", (paths.published / server.CONFIG), "-l", target], timeout=600)
        target.chmod(0o600)


def load(context: Context, source: Path) -> None:
    paths = context.paths
    if not (paths.published / server.CONFIG).exists():
        raise HeadnodeError("the backup holds a directory, but the site that it describes has none")
    # What an interrupted restore left is of no use: slapadd begins with nothing.
    shutil.rmtree(paths.directory / "data", ignore_errors=True)
    server.prepare(context.site, paths)
    run.run(["slapadd", "-q", "-f", paths.published / server.CONFIG, "-l", source], timeout=3600)
    # Its files were written by us, and are slapd's.
    for path in (paths.directory / "data").iterdir():
        shutil.chown(path, paths.slapd_user, paths.slapd_user)
