"""Write a node's own files into its new system.

Run as a program of its own that first makes the target its root: then no link inside the image, however it points, can
lead a write out of it. Files come in through standard input, because some of them are secrets.
"""

import base64
import binascii
import json
import os
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from .errors import AgentError

MOST = 20_000


class BadFile(AgentError):
    """A file of the overlay cannot be written as it is described."""


def write_all(files: list[Any], root: Path) -> int:
    """Write the files below `root`; all are looked at before the first is written."""
    if not isinstance(files, list) or len(files) > MOST:
        raise BadFile("the overlay is not a list of files")
    checked = [check(file, root) for file in files]
    for path, mode, owner, content in checked:
        write(root / path, mode, owner, content)
    return len(checked)


def check(file: Any, root: Path) -> tuple[str, int, tuple[int, int], bytes]:
    if not isinstance(file, dict):
        raise BadFile("a file of the overlay is not a JSON object")
    path = confined(file.get("path"))
    try:
        content = base64.b64decode(str(file.get("content_base64", "")), validate=True)
    except binascii.Error as error:
        raise BadFile(f"{path}: its content is not base64") from error
    return (
        path,
        file_mode(file.get("mode", 0o644), path),
        owner_ids(str(file.get("owner") or "root:root"), root),
        content,
    )


def confined(path: Any) -> str:
    """Without its leading slash; names that could leave the root are refused, not repaired."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise BadFile(f"{path!r} is not a path")
    parts = PurePosixPath(path).parts
    inner = [part for part in parts if part != "/"]
    if not inner or ".." in inner or path.endswith("/"):
        raise BadFile(f"{path!r} does not name a file inside the new system")
    return "/".join(inner)


def file_mode(mode: Any, path: str) -> int:
    """A number, or octal digits as text."""
    try:
        value = int(mode, 8) if isinstance(mode, str) else int(mode)
    except (TypeError, ValueError):
        value = -1
    if not 0 <= value <= 0o7777:
        raise BadFile(f"{path}: {mode!r} is not a file mode")
    return value


def owner_ids(owner: str, root: Path) -> tuple[int, int]:
    """Names are those of the new system, not of this ramdisk."""
    user, _, group = owner.partition(":")
    uid = account(user, root / "etc/passwd", owner)
    return uid, account(group or user, root / "etc/group", owner)


def account(name: str, table: Path, owner: str) -> int:
    if name.isdigit():
        return int(name)
    if name == "root":
        return 0
    lines = table.read_text(errors="replace").splitlines() if table.exists() else []
    for fields in (line.split(":") for line in lines):
        if len(fields) > 2 and fields[0] == name and fields[2].isdigit():
            return int(fields[2])
    raise BadFile(f"the owner {owner!r} is not an account of the new system")


def write(path: Path, mode: int, owner: tuple[int, int], content: bytes) -> None:
    """The file appears complete and with its final mode: a secret is never readable for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    if path.is_dir() and not path.is_symlink():
        raise BadFile(f"/{path} is a directory in the new system")
    draft = path.with_name(f".{path.name}.headnode")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if os.geteuid() == 0:
            os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)
    draft.replace(path)


def main() -> int:
    return main_at(sys.argv[1])


def main_at(target: str) -> int:
    try:
        files = json.load(sys.stdin)
        os.chroot(target)
        os.chdir("/")
        sys.stdout.write(f"{write_all(files, Path('/'))} files\n")
    except (AgentError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
