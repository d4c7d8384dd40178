"""The archive format that the kernel unpacks as its first root file system: cpio "newc"."""

from collections.abc import Iterable, Iterator
from typing import IO

TYPES = {"file": 0o100000, "dir": 0o040000, "link": 0o120000, "char": 0o020000, "block": 0o060000}
HEADER = b"070701"
CHUNK = 1 << 20


def padding(length: int) -> bytes:
    return b"\0" * (-length % 4)


def header(name: str, mode: int, size: int, number: int, mtime: int, *, links: int = 1,
           owner: tuple[int, int] = (0, 0), device: tuple[int, int] = (0, 0)) -> bytes:  # fmt: skip
    encoded = name.encode("utf-8", "surrogateescape") + b"\0"
    fields = (number, mode, *owner, links, mtime, size, 0, 0, *device, len(encoded), 0)
    head = HEADER + b"".join(b"%08X" % field for field in fields) + encoded
    return head + padding(len(head))


def trailer() -> bytes:
    return header("TRAILER!!!", 0, 0, 0, 0)


def entry(name: str, kind: str, mode: int, number: int, mtime: int, content: bytes = b"",
          owner: tuple[int, int] = (0, 0), device: tuple[int, int] = (0, 0)) -> bytes:  # fmt: skip
    """One whole entry with its content in memory."""
    head = header(name, TYPES[kind] | mode, len(content), number, mtime, owner=owner, device=device)
    return head + content + padding(len(content))


def stream(source: IO[bytes], size: int) -> Iterator[bytes]:
    """A file's content in pieces, padded as the format wants it."""
    left = size
    while left:
        piece = source.read(min(CHUNK, left))
        if not piece:
            raise EOFError(f"{left} bytes of a file are missing")
        left -= len(piece)
        yield piece
    yield padding(size)


def write(target: IO[bytes], pieces: Iterable[bytes]) -> int:
    written = 0
    for piece in pieces:
        target.write(piece)
        written += len(piece)
    return written
