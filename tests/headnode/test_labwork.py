"""How long a lab will take, as far as it can be known."""

import json
from pathlib import Path

import pytest

from headnode.cli.labwork import USUAL, Phases, said

PLAN = ("ramdisk", "image", "boot", "deploy", "verify")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("headnode.cli.labwork.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_first_time_the_usual_is_expected(tmp_path: Path, clock: Clock) -> None:
    whole = USUAL["ramdisk"] + USUAL["image"] + USUAL["boot"] + 2 * (USUAL["deploy"] + USUAL["verify"])
    assert Phases(tmp_path / "timings.json", 2, PLAN).left() == whole
    assert Phases(tmp_path / "timings.json", 2, ("boot",)).left() == USUAL["boot"]


def test_what_a_phase_took_is_expected_the_next_time(tmp_path: Path, clock: Clock) -> None:
    timings = tmp_path / "timings.json"
    phases = Phases(timings, 1, PLAN)
    with phases.phase("ramdisk"):
        clock.now += 20
        assert phases.left() == sum(USUAL.values()) - 20
        clock.now += 400
        # Longer than expected: that it will end some time is all that is known.
        assert phases.left() == sum(USUAL.values()) - USUAL["ramdisk"]
    assert json.loads(timings.read_text())["ramdisk"] == 420
    assert Phases(timings, 1, PLAN).left() == sum(USUAL.values()) - USUAL["ramdisk"] + 420
    # What was there already says nothing about building it.
    Phases(timings, 1, PLAN).passed("ramdisk", 0.1)
    assert json.loads(timings.read_text())["ramdisk"] == 420


def test_an_interrupted_phase_says_nothing_about_the_next(tmp_path: Path, clock: Clock) -> None:
    timings = tmp_path / "timings.json"
    phases = Phases(timings, 1, PLAN)

    def interrupted() -> None:
        with phases.phase("image"):
            clock.now += 5
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not timings.exists()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"image": "long"}'])
def test_a_damaged_record_is_as_good_as_none(tmp_path: Path, clock: Clock, content: str) -> None:
    timings = tmp_path / "timings.json"
    timings.write_text(content)
    assert Phases(timings, 1, PLAN).left() == sum(USUAL.values())


def test_the_summary_names_every_phase(tmp_path: Path, clock: Clock) -> None:
    phases = Phases(tmp_path / "timings.json", 2, PLAN)
    for name in PLAN:
        with phases.phase(name):
            clock.now += 30
    summary = phases.summary()
    assert all(f"{name} 30 s" in summary for name in PLAN)
    assert summary.endswith("2.5 min in all.")


def test_seconds_become_minutes_when_there_are_many() -> None:
    assert (said(0.4), said(89), said(150)) == ("0 s", "89 s", "2.5 min")
