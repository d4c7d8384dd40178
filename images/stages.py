"""How far a build is, read from mmdebstrap's log as it grows. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Progress = Callable[[str], None]
COUNTED = re.compile(r"(\d+) newly installed")


@runtime_checkable
class Measured(Protocol):
    """A listener that can draw a bar, and so also wants to know which share of the whole is done."""

    def __call__(self, stage: str, /) -> None: ...

    def reached(self, share: float, /) -> None: ...


@dataclass(frozen=True)
class Stage:
    """A part of a build: what we call it, which share of the whole it is, and the lines that count packages in it."""

    words: str
    begins: float
    ends: float
    lines: tuple[str, ...] = ()


# What mmdebstrap says at the beginning of its longer stages. The shares are those of a real build.
STAGES = {
    "I: running apt-get update": Stage("reading the archive's lists", 0.0, 0.03),
    "I: downloading packages": Stage("downloading packages", 0.03, 0.08, ("Get:",)),
    "I: extracting archives": Stage("unpacking the essential packages", 0.08, 0.1),
    "I: installing essential packages": Stage(
        "installing the essential packages", 0.1, 0.2, ("Unpacking ", "Setting up ")
    ),
    "I: installing remaining packages": Stage(
        "installing all other packages", 0.2, 0.7, ("Get:", "Unpacking ", "Setting up ")
    ),
    "I: creating tarball": Stage("packing the root file system", 0.7, 0.95),
}
LAST = Stage("checking, signing and publishing", 0.95, 1.0)


class Reader:
    """Lines in; stages and the share of the whole out."""

    def __init__(self) -> None:
        self._stage = Stage("", 0.0, 0.0)
        self._packages = 0
        self._seen = 0
        self.share = 0.0

    def read(self, line: str) -> str | None:
        """The words of a stage that begins with this line."""
        for beginning, stage in STAGES.items():
            if line.startswith(beginning):
                self._stage, self._seen = stage, 0
                self._move()
                return stage.words
        if found := COUNTED.search(line):
            self._packages = int(found[1])
        if line.startswith(self._stage.lines):
            self._seen += 1
            self._move()
        return None

    def _move(self) -> None:
        """Never back; and a stage that has more lines than packages does not run into the next."""
        expected = self._packages * len(self._stage.lines)
        done = min(self._seen / expected, 1.0) if expected else 0.0
        self.share = max(self.share, self._stage.begins + (self._stage.ends - self._stage.begins) * done)


def reached(progress: Progress, share: float) -> None:
    if isinstance(progress, Measured):
        progress.reached(share)
