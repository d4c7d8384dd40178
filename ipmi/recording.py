"""Console recordings on disk: append-only segments of stamped records, with a time index beside each.

A record is kind (1 byte), microseconds since 1970 (8), length (4), then bytes. A crash can only cut the last
record short; readers stop there, and the next writer starts a new segment. Segments are named by their first
stamp, so finding a moment is a look at names, then at the index, then at most one stretch of records.
"""

import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

HEAD: Final = struct.Struct("<BQI")
INDEX: Final = struct.Struct("<QQ")
INDEX_EVERY: Final = 32 * 1024
LARGEST_RECORD: Final = 1024 * 1024
SUFFIX: Final = ".rec"


class Kind(StrEnum):
    """What a record is; one byte on disk."""

    DATA = "d"
    # From here on nothing was heard; the text says why.
    DEAF = "x"
    # Heard again; the text says from when to when it was deaf.
    HEARING = "h"


@dataclass(frozen=True, slots=True)
class Record:
    kind: Kind
    at: float
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


def encode(record: Record) -> bytes:
    return HEAD.pack(ord(record.kind), round(record.at * 1e6), len(record.data)) + record.data


class Recording:
    """The writer of one node's console: rotates segments and drops the oldest beyond the bound."""

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = 4 * 1024 * 1024,
        keep_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.keep_bytes = keep_bytes
        self.clock = clock
        self.descriptor = -1
        self.index = -1
        self.size = 0
        self.indexed = -INDEX_EVERY
        self.path: Path | None = None
        directory.mkdir(parents=True, exist_ok=True, mode=0o750)

    def last_sign_of_life(self) -> float | None:
        """When the previous writer was last alive: it touches its segment while it hears."""
        newest = segments(self.directory)[-1:]
        return newest[0].stat().st_mtime if newest else None

    def write(self, kind: Kind, data: bytes) -> Record:
        record = Record(kind, self.clock(), data)
        encoded = encode(record)
        if self.descriptor < 0 or self.size + len(encoded) > self.segment_bytes:
            self.rotate(record.at)
        if self.size - self.indexed >= INDEX_EVERY:
            os.write(self.index, INDEX.pack(round(record.at * 1e6), self.size))
            self.indexed = self.size
        # One write call: a crash of this process leaves whole records or one cut short, never mixed ones.
        try:
            written = os.write(self.descriptor, encoded)
        except OSError:
            written = 0
        if written < len(encoded):
            # A full disk: nothing may follow the torn record, so the next one starts a new segment.
            self.close()
            raise OSError(f"the console recording {self.path} cannot be written: is the disk full?")
        self.size += len(encoded)
        return record

    def touch(self) -> None:
        """Say "alive and listening" without growing the file."""
        if self.descriptor >= 0:
            os.utime(self.descriptor)

    def rotate(self, at: float) -> None:
        self.close()
        stamp = round(at * 1e6)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        while True:
            self.path = self.directory / f"{stamp:020d}{SUFFIX}"
            try:
                self.descriptor = os.open(self.path, flags, 0o640)
                break
            except FileExistsError:
                stamp += 1  # two segments in one microsecond: a clock that was set back
        self.index = os.open(self.path.with_suffix(".idx"), flags & ~os.O_EXCL, 0o640)
        self.size, self.indexed = 0, -INDEX_EVERY
        self.drop_oldest()

    def drop_oldest(self) -> None:
        files = segments(self.directory)
        total = sum(file.stat().st_size for file in files) + self.segment_bytes
        for file in files[:-1]:
            if total <= self.keep_bytes:
                return
            total -= file.stat().st_size
            file.unlink(missing_ok=True)
            file.with_suffix(".idx").unlink(missing_ok=True)

    def close(self) -> None:
        for descriptor in (self.descriptor, self.index):
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor = self.index = -1


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{SUFFIX}"))


def read(directory: Path, since: float = 0.0) -> Iterator[Record]:
    """All records from that moment on, oldest first; safe while a writer is at work."""
    files = segments(directory)
    start = next((n for n in range(len(files) - 1, -1, -1) if first_stamp(files[n]) <= since), 0)
    for file in files[start:]:
        yield from (record for record in read_segment(file, since) if record.at >= since)


def first_stamp(path: Path) -> float:
    return int(path.stem) / 1e6


def read_segment(path: Path, since: float = 0.0) -> Iterator[Record]:
    try:
        with path.open("rb") as file:
            file.seek(offset_for(path.with_suffix(".idx"), since))
            while len(head := file.read(HEAD.size)) == HEAD.size:
                kind, stamp, length = HEAD.unpack(head)
                data = file.read(length) if length <= LARGEST_RECORD else b""
                if len(data) < length or chr(kind) not in set(Kind):
                    return  # cut short by a crash, or being written right now
                yield Record(Kind(chr(kind)), stamp / 1e6, data)
    except FileNotFoundError:
        return  # rotated away while we looked


def offset_for(index: Path, since: float) -> int:
    """The last indexed offset before that moment."""
    try:
        entries = index.read_bytes()
    except FileNotFoundError:
        return 0
    best = 0
    for stamp, offset in INDEX.iter_unpack(entries[: len(entries) // INDEX.size * INDEX.size]):
        if stamp / 1e6 > since:
            break
        best = offset
    return best


def tail(directory: Path, length: int) -> bytes:
    """The last so many bytes of console output: the scrollback for who opens it now."""
    found: list[bytes] = []
    have = 0
    for file in reversed(segments(directory)):
        data = b"".join(record.data for record in read_segment(file) if record.kind is Kind.DATA)
        found.insert(0, data)
        have += len(data)
        if have >= length:
            break
    return b"".join(found)[-length:]
