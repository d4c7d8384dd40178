"""Tar archives of plain files and nothing else: no links, no devices, nothing outside of the place they are read to."""

import os
import shutil
import tarfile
from pathlib import Path
from typing import IO

from headnode.errors import HeadnodeError, shown
from headnode.publish import confined


def add(tar: tarfile.TarFile, name: str, size: int, mode: int, content: IO[bytes]) -> None:
    """A file with its name, size and mode; whose it was and when it was written is nobody's business."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    tar.addfile(entry, content)


def unpack(tar: tarfile.TarFile, place: Path, directory_mode: int = 0o755) -> None:
    for member in tar:
        source = tar.extractfile(member) if member.isreg() else None
        if source is None:
            raise HeadnodeError(f"the archive holds {shown(member.name)}, which is no plain file")
        target = confined(place, member.name)
        target.parent.mkdir(parents=True, exist_ok=True, mode=directory_mode)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            shutil.copyfileobj(source, stream, 1 << 20)
            os.fchmod(stream.fileno(), member.mode & 0o777)
