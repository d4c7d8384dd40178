"""The report of a burn-in: what passed, and the course of the temperatures."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import templates
from headnode.fields import measurement
from headnode.files import write_whole
from headnode.nodeset import fold
from headnode.workflows.context import Context

COLOURS = ("#1f5fbf", "#b8560f", "#2a7d2e", "#9b2d9b", "#7a6400", "#0f7f7f", "#b00020", "#555555")
WIDTH, HEIGHT = 540.0, 200.0
# As many as there is room for beside the plot; nodes have at most sixteen GPUs.
MOST_LINES = 32
Checks = Sequence[Mapping[str, Any]]


def burned_in(said: Mapping[str, Checks]) -> bool:
    """Whether these reports tell of a burn-in."""
    return any(str(check.get("name", "")).startswith("burn-in") for checks in said.values() for check in checks)


def write_report(context: Context, said: Mapping[str, Checks], odd: Sequence[str] = ()) -> Path:
    """Named after what it tells of, so that looking at the same once more makes no other."""
    told = context.inventory.history.newest("verify", list(said)).values()
    newest = max((event.at for event in told if event.at), default=datetime.now(UTC))
    nodes = hashlib.sha256(fold(said).encode()).hexdigest()[:8]
    path = context.paths.state / "burn-in" / f"{newest:%Y%m%d-%H%M%S}-{nodes}.html"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        write_whole(path, page(context.site.cluster, said, datetime.now(UTC), odd).encode(), 0o640)
    return path


def page(cluster: str, said: Mapping[str, Checks], now: datetime, odd: Sequence[str] = ()) -> str:
    """Pure. Words come from nodes, so every one is escaped."""
    nodes = [{"name": name, "checks": checks, **plot(checks)} for name, checks in said.items()]
    return templates.render("report/burnin.html.j2", cluster=cluster, nodes=nodes, odd=odd, made_at=f"{now:%F %T} UTC")


def plot(checks: Checks) -> dict[str, Any]:
    """Whatever a node sent: what is no number is none, and nothing of it ends the report."""
    heat = next((check.get("data") for check in checks if check.get("name") == "burn-in heat"), None)
    series = heat.get("series") if isinstance(heat, Mapping) else None
    if not isinstance(heat, Mapping) or not isinstance(series, Mapping):
        return {"lines": [], "highest": 0}
    times = numbers(heat.get("times"))
    courses = {str(name): numbers(values) for name, values in list(series.items())[:MOST_LINES]}
    highest = max([1.0, *(value for values in courses.values() for value in values)])
    lines = [
        {"name": name, "colour": COLOURS[n % len(COLOURS)], "points": points(times, values, highest)}
        for n, (name, values) in enumerate(courses.items())
    ]
    return {"lines": lines, "highest": f"{highest:.0f}"}


def numbers(found: object) -> list[float]:
    listed = found if isinstance(found, list) else []
    return [float(measurement(x) or 0.0) for x in listed]


def points(times: Sequence[float], values: Sequence[float], highest: float) -> str:
    last = max([1.0, *times])
    return " ".join(
        f"{10 + at / last * WIDTH:.1f},{10 + HEIGHT - value / highest * HEIGHT:.1f}"
        for at, value in zip(times, values, strict=False)
    )
