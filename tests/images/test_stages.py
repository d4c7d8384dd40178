"""How far a build is, from the lines that mmdebstrap, apt and dpkg write."""

from pathlib import Path

import pytest

from headnode.lab.process import wait_for
from images.bootstrap import following
from images.stages import STAGES, Measured, Reader, reached

BEGINNING = """\
I: finding correct signed-by value...
I: running apt-get update...
Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]
I: downloading packages with apt...
0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://deb.debian.org/debian bookworm/main amd64 base-files amd64 12.4 [70.6 kB]
Get:2 http://deb.debian.org/debian bookworm/main amd64 bash amd64 5.2.15-2 [1,491 kB]
"""
MIDDLE = """\
I: extracting archives...
I: installing essential packages...
Unpacking base-files (12.4) ...
Unpacking bash (5.2.15-2) ...
Setting up base-files (12.4) ...
"""
END = """\
I: installing remaining packages inside the chroot...
0 upgraded, 1 newly installed, 0 to remove and 0 not upgraded.
Get:1 http://deb.debian.org/debian bookworm/main amd64 less amd64 590 [130 kB]
Unpacking less (590-2.1~deb12u2) ...
Setting up less (590-2.1~deb12u2) ...
Setting up another-that-was-not-counted (1) ...
I: creating tarball...
"""


class Bar:
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.shares: list[float] = []

    def __call__(self, stage: str, /) -> None:
        self.stages.append(stage)

    def reached(self, share: float, /) -> None:
        self.shares.append(share)


def test_packages_are_counted_within_each_stage() -> None:
    reader = Reader()
    for line in BEGINNING.splitlines(keepends=True):
        reader.read(line)
    assert reader.share == STAGES["I: downloading packages"].ends
    for line in MIDDLE.splitlines(keepends=True):
        reader.read(line)
    stage = STAGES["I: installing essential packages"]
    assert reader.share == pytest.approx(stage.begins + (stage.ends - stage.begins) * 3 / 4)


def test_the_share_never_goes_back_or_past_its_stage() -> None:
    reader, shares = Reader(), [0.0]
    for line in (BEGINNING + MIDDLE + END + BEGINNING).splitlines(keepends=True):
        reader.read(line)
        shares.append(reader.share)
    assert shares == sorted(shares)
    assert max(shares) == STAGES["I: creating tarball"].begins


def test_stages_follow_each_other_without_a_gap() -> None:
    stages = list(STAGES.values())
    assert [stage.begins for stage in stages[1:]] == [stage.ends for stage in stages[:-1]]


def test_a_growing_log_moves_the_bar_also_when_a_line_comes_in_two_pieces(tmp_path: Path) -> None:
    log, bar = tmp_path / "log", Bar()
    log.touch()
    with following(log, bar), log.open("a") as stream:
        stream.write(BEGINNING + "I: extr")
        stream.flush()
        assert wait_for(lambda: "downloading packages" in bar.stages, 10)
        stream.write("acting archives...\n")
        stream.flush()
        assert wait_for(lambda: bar.stages[-1] == "unpacking the essential packages", 10)
        assert wait_for(lambda: bar.shares[-1] == STAGES["I: extracting archives"].begins, 10)


def test_who_only_wants_words_gets_no_numbers() -> None:
    said: list[str] = []
    reached(said.append, 0.5)
    assert said == []
    assert not isinstance(said.append, Measured)
    assert isinstance(Bar(), Measured)
