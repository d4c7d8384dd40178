"""Reading recorded consoles: following them, finding text in them, and playing them back."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ipmi.phases import ESCAPES
from ipmi.recording import HEAD, LARGEST_RECORD, Kind, Record, first_stamp, read, segments

# A pause of an hour is not played back as an hour, whatever the speed.
LONGEST_PAUSE = 5.0
LONGEST_LINE = 4096


def pauses(records: Iterable[Record], speed: float) -> Iterator[tuple[float, Record]]:
    """Each record with the seconds to wait before it, at so many times the speed it was recorded with. Pure."""
    before: float | None = None
    for record in records:
        pause = 0.0 if before is None else max(0.0, record.at - before) / speed
        before = record.at
        yield min(pause, LONGEST_PAUSE), record


def shown(record: Record) -> bytes:
    """What a person sees of a record: the console's bytes, or a line of ours where it was deaf."""
    if record.kind is Kind.DATA:
        return record.data
    return f"\r\n[console: {record.text}]\r\n".encode()


@dataclass
class Follower:
    """Reads what is new in one node's recording since the last time; knows where it was."""

    directory: Path
    segment: Path | None = None
    offset: int = 0

    @classmethod
    def at_end(cls, directory: Path) -> "Follower":
        last = segments(directory)[-1:]
        return cls(directory, last[0], last[0].stat().st_size) if last else cls(directory)

    @classmethod
    def since(cls, directory: Path, moment: float) -> "Follower":
        """From the segment on that holds that moment; what is older in it comes along."""
        before = [segment for segment in segments(directory) if first_stamp(segment) <= moment]
        return cls(directory, before[-1] if before else None)

    def new(self) -> Iterator[Record]:
        for segment in segments(self.directory):
            if self.segment is not None and segment < self.segment:
                continue
            if segment != self.segment:
                self.segment, self.offset = segment, 0  # also for a segment that appeared after we began
            yield from self.rest(segment)

    def rest(self, segment: Path) -> Iterator[Record]:
        try:
            with segment.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return  # rotated away
        at = 0
        while at + HEAD.size <= len(data):
            kind, stamp, length = HEAD.unpack_from(data, at)
            end = at + HEAD.size + length
            if length > LARGEST_RECORD or end > len(data) or chr(kind) not in set(Kind):
                return  # being written right now; the next look has it whole
            yield Record(Kind(chr(kind)), stamp / 1e6, data[at + HEAD.size : end])
            self.offset += end - at
            at = end


@dataclass
class LineFinder:
    """Lines of one console that match; a line is whole when the next one begins."""

    pattern: "re.Pattern[str]"
    unfinished: bytes = b""
    begun: float = 0.0

    def feed(self, record: Record) -> Iterator[tuple[float, str]]:
        if record.kind is not Kind.DATA:
            return
        if not self.unfinished:
            self.begun = record.at
        *lines, rest = (self.unfinished + record.data).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            text = plain(line)
            if text and self.pattern.search(text):
                yield self.begun, text
            self.begun = record.at
        self.unfinished = rest[-LONGEST_LINE:]

    def last(self) -> Iterator[tuple[float, str]]:
        """The line that nothing followed yet, such as a prompt."""
        text = plain(self.unfinished)
        if text and self.pattern.search(text):
            yield self.begun, text


def plain(line: bytes) -> str:
    """Without colours and cursor movements, safe to print."""
    text = ESCAPES.sub(b"", line).decode(errors="replace")
    return "".join(c for c in text if c.isprintable() or c == "\t").strip()


def exists_since(directory: Path) -> float | None:
    found = segments(directory)
    return first_stamp(found[0]) if found else None


def text_since(directory: Path, moment: float, most: int = 2_000_000) -> str:
    """What a console said, readable: whole lines without colours and cursor movements."""
    said = b"".join(shown(record) for record in read(directory, moment))
    return "\n".join(plain(line) for line in said[-most:].replace(b"\r\n", b"\n").split(b"\n"))


def search(
    root: Path, names: Iterable[str], pattern: "re.Pattern[str]", moment: float, most: int = 1000
) -> list[tuple[float, str, str]]:
    """Lines that match, in order of time: stamp, node, text."""
    found = [
        (stamp, name, text)
        for name, finder in ((name, LineFinder(pattern)) for name in names)
        for record in read(root / name, moment)
        for stamp, text in finder.feed(record)
    ]
    return sorted(found)[-most:]
