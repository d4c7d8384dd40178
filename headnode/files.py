"""Writing a file so that it is there whole or not at all, whatever happens meanwhile."""

import hashlib
import os
import threading
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int) -> None:
    """Put a file in place of whatever was there."""
    drafted(path, content, mode).replace(path)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Put a file where there is none; FileExistsError when somebody else was quicker."""
    draft = drafted(path, content, mode)
    try:
        # A link, unlike a rename, takes nobody's place.
        os.link(draft, path)
    finally:
        draft.unlink()


def drafted(path: Path, content: bytes, mode: int) -> Path:
    """The file beside its place, on the disk, and never readable by more people than it may be."""
    # One for each thread: two that write the same file must not write into one another's.
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_native_id()}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    return draft


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
