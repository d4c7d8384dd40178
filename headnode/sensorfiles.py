"""Sensor readings over time, in small text files: every reading for some days, then one line for an hour.

A node has a directory. `raw-20261116.csv` holds a line for each reading, `hours-202611.csv` the lowest, mean and
highest of each hour. A line that begins with # names the columns from there on, so a sensor that appears or vanishes
starts a new heading and nothing else. Files are only ever appended to, and go as a whole when they are too old.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

HOUR = 3600
Values = Mapping[str, float]


@dataclass(frozen=True)
class Reading:
    at: float
    values: Values


@dataclass(frozen=True)
class Hour:
    """What an hour was like: lowest, mean and highest of each sensor."""

    at: int
    values: Mapping[str, tuple[float, float, float]]


# -- pure ------------------------------------------------------------------------------------------------


def downsample(readings: Iterable[Reading]) -> list[Hour]:
    """Whole hours from single readings, in order of time."""
    found: dict[int, dict[str, list[float]]] = {}
    for reading in readings:
        hour = found.setdefault(int(reading.at) // HOUR * HOUR, {})
        for name, value in reading.values.items():
            hour.setdefault(name, []).append(value)
    return [
        Hour(at, {name: (min(seen), sum(seen) / len(seen), max(seen)) for name, seen in sensors.items()})
        for at, sensors in sorted(found.items())
    ]


def overdue(names: Iterable[str], now: datetime, raw_hours: int, history_days: int) -> list[str]:
    """Files whose newest possible line is older than what is to be kept."""
    kept = {"raw": now - timedelta(hours=raw_hours), "hours": now - timedelta(days=history_days)}
    found = []
    for name in names:
        kind, _, day = name.removesuffix(".csv").partition("-")
        if kind in kept and (end := end_of(day)) is not None and end < kept[kind]:
            found.append(name)
    return found


def end_of(day: str) -> datetime | None:
    """The first moment after a day (20261116) or a month (202611)."""
    try:
        if len(day) == 8:
            return datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1)
        first = datetime.strptime(day, "%Y%m").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (first + timedelta(days=32)).replace(day=1)


def parse(text: str) -> Iterator[tuple[float, dict[str, str]]]:
    """Stamp and cells by column; what a crash cut short is left out."""
    columns: list[str] = []
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            return
        if line.startswith("#"):
            columns = json.loads(line[1:])
            continue
        stamp, *cells = next(csv.reader([line]))
        if len(cells) == len(columns):
            yield float(stamp), {name: cell for name, cell in zip(columns, cells, strict=True) if cell}


def line_of(at: float, cells: Sequence[str]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow([f"{at:.0f}", *cells])
    return stream.getvalue()


# -- files -----------------------------------------------------------------------------------------------


class History:
    """One node's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.headings: dict[Path, list[str]] = {}

    def add(self, reading: Reading) -> None:
        day = datetime.fromtimestamp(reading.at, UTC)
        cells = {name: f"{value:g}" for name, value in reading.values.items()}
        self.append(self.directory / f"raw-{day:%Y%m%d}.csv", reading.at, cells)

    def append(self, path: Path, at: float, cells: Mapping[str, str]) -> None:
        columns = list(cells)
        text = line_of(at, list(cells.values()))
        if self.headings.get(path) != columns:
            # Also at our first line: what we do not remember we say again. A torn last line is ended first.
            text = f"{'' if ended(path) else chr(10)}#{json.dumps(columns)}\n{text}"
            self.headings = {path: columns} if len(self.headings) > 4 else {**self.headings, path: columns}
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        with path.open("a") as file:
            file.write(text)

    def condense(self, now: float) -> None:
        """Write the hours that are over and not written yet."""
        newest = max((hour.at for hour in self.hours(since=now - 40 * 24 * HOUR)), default=0)
        readings = self.readings(since=newest + HOUR if newest else 0.0)
        for hour in downsample(reading for reading in readings if reading.at < int(now) // HOUR * HOUR):
            month = datetime.fromtimestamp(hour.at, UTC)
            cells = {name: " ".join(f"{part:g}" for part in parts) for name, parts in hour.values.items()}
            self.append(self.directory / f"hours-{month:%Y%m}.csv", hour.at, cells)

    def forget(self, now: float, raw_hours: int, history_days: int) -> None:
        names = [path.name for path in self.directory.glob("*.csv")]
        for name in overdue(names, datetime.fromtimestamp(now, UTC), raw_hours, history_days):
            (self.directory / name).unlink(missing_ok=True)

    def readings(self, since: float = 0.0) -> Iterator[Reading]:
        for at, cells in self.lines("raw", since):
            yield Reading(at, {name: float(cell) for name, cell in cells.items()})

    def hours(self, since: float = 0.0) -> Iterator[Hour]:
        for at, cells in self.lines("hours", since):
            low_mean_high = {name: tuple(map(float, cell.split())) for name, cell in cells.items()}
            yield Hour(int(at), {n: (v[0], v[1], v[2]) for n, v in low_mean_high.items() if len(v) == 3})

    def lines(self, kind: str, since: float) -> Iterator[tuple[float, dict[str, str]]]:
        for path in sorted(self.directory.glob(f"{kind}-*.csv")):
            end = end_of(path.stem.partition("-")[2])
            if end is None or end.timestamp() <= since:
                continue
            yield from ((at, cells) for at, cells in parse(path.read_text()) if at >= since)


def ended(path: Path) -> bool:
    """Whether a file is empty or its last line is whole."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            if file.tell() == 0:
                return True
            file.seek(-1, 2)
            return file.read(1) == b"\n"
    except FileNotFoundError:
        return True
