"""Following a log that grows and is rotated, without losing or repeating a line across our own restarts."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# What is read in one go; the rest comes with the next round.
MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Position:
    """Where we are: in which file (by its inode) and how far."""

    inode: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.inode}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        inode, _, offset = text.partition(":")
        return cls(int(inode), int(offset)) if inode.isdigit() and offset.isdigit() else cls()


class Tail:
    def __init__(self, path: Path, start: Position | None = None) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._start = start or Position()
        self._rest = b""
        self._quiet = False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def position(self) -> Position:
        if self._file is None:
            return self._start
        return Position(os.fstat(self._file.fileno()).st_ino, self._file.tell() - len(self._rest))

    def lines(self) -> list[str]:
        """Complete lines that came since last time; after a rotation the old file is read to its end first.

        Writers go on in the old file until they have noticed, so it is left only when two rounds found nothing more.
        """
        if self._file is None and not self._open():
            return []
        found = self._read()
        ended = not found and self._rotated()
        if ended and self._quiet:
            self.close()
            if self._open():
                found = self._read()
            ended = False
        self._quiet = ended
        return found

    def _open(self) -> bool:
        # After a restart the file we were in may already have been rotated away.
        for path in (self.path.with_name(self.path.name + ".1"), self.path):
            try:
                inode = path.stat().st_ino
            except OSError:
                continue
            if path == self.path or inode == self._start.inode:
                self._file = path.open("rb")
                size = os.fstat(self._file.fileno()).st_size
                same = inode == self._start.inode and self._start.offset <= size
                self._file.seek(self._start.offset if same else 0)
                self._start = Position()
                self._rest = b""
                return True
        return False

    def _read(self) -> list[str]:
        assert self._file is not None  # noqa: S101 - for the type checker
        self._rest += self._file.read(MOST_BYTES)
        *complete, self._rest = self._rest.split(b"\n")
        if len(self._rest) > MOST_BYTES:
            self._rest = b""  # a line without an end is not a log line
        return [line.decode("utf-8", "replace") for line in complete]

    def _rotated(self) -> bool:
        assert self._file is not None  # noqa: S101 - for the type checker
        held = os.fstat(self._file.fileno())
        try:
            now = self.path.stat()
        except OSError:
            return False
        return now.st_ino != held.st_ino or now.st_size < self._file.tell()
