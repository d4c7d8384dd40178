"""The report of a burn-in: what passed, and the course of the temperatures."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import templates
from headnode.files import write_whole
from headnode.workflows.context import Context

COLOURS = ("#1f5fbf", "#b8560f", "#2a7d2e", "#9b2d9b", "#7a6400", "#0f7f7f", "#b00020", "#555555")
WIDTH, HEIGHT = 540.0, 200.0
Checks = Sequence[Mapping[str, Any]]


def write_report(context: Context, said: Mapping[str, Checks]) -> Path:
    now = datetime.now(UTC)
    path = context.paths.state / "burn-in" / f"{now:%Y%m%d-%H%M%S}.html"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    write_whole(path, page(context.site.cluster, said, now).encode(), 0o640)
    return path


def page(cluster: str, said: Mapping[str, Checks], now: datetime) -> str:
    """Pure. Words come from nodes, so every one is escaped."""
    nodes = [{"name": name, "checks": checks, **plot(checks)} for name, checks in said.items()]
    return templates.render("report/burnin.html.j2", cluster=cluster, nodes=nodes, made_at=f"{now:%F %T} UTC")


def plot(checks: Checks) -> dict[str, Any]:
    heat = next((check.get("data") for check in checks if check.get("name") == "burn-in heat"), None)
    if not isinstance(heat, Mapping):
        return {"lines": [], "highest": 0}
    times, highest = list(heat.get("times") or [0]), float(heat.get("highest") or 1)
    lines = [
        {"name": name, "colour": COLOURS[n % len(COLOURS)], "points": points(times, values, highest)}
        for n, (name, values) in enumerate((heat.get("series") or {}).items())
    ]
    return {"lines": lines, "highest": f"{highest:.0f}"}


def points(times: Sequence[float], values: Sequence[float], highest: float) -> str:
    last = max(times[-1] if times else 1, 1)
    return " ".join(
        f"{10 + at / last * WIDTH:.1f},{10 + HEIGHT - value / highest * HEIGHT:.1f}"
        for at, value in zip(times, values, strict=False)
    )
