"""The report of a burn-in: whatever nodes say, it is written, and says what they said."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from headnode.workflows import burnin, verify
from headnode.workflows.burnin import page
from headnode.workflows.context import Context
from tests.headnode.test_maintenance import enrolled, install
from tests.support import headnode

__all__ = ["enrolled"]
NOW = datetime(2026, 11, 18, tzinfo=UTC)
CLOCK = {"name": "clock", "ok": True, "message": "well", "offset_ms": 0.1}


def heat(**data: Any) -> list[dict[str, Any]]:
    return [{"name": "burn-in heat", "ok": True, "message": "at most 71 °C", "data": data}]


def drawn(text: str) -> list[str]:
    return re.findall(r'points="([^"]*)"', text)


def test_temperatures_are_drawn_over_time() -> None:
    text = page("demo", {"gpu01": heat(times=[0, 10, 20], series={"GPU 0": [30, 60, 80], "cpu": [40, 40, 40]})}, NOW)
    assert drawn(text) == ["10.0,135.0 280.0,60.0 550.0,10.0", "10.0,110.0 280.0,110.0 550.0,110.0"]
    assert "80 °C" in text


def test_sixteen_gpus_have_their_names_beside_the_plot() -> None:
    series = {f"GPU {n}": [30.0 + n] for n in range(24)}
    text = page("demo", {"gpu01": heat(times=[0], series=series)}, NOW)
    (height,) = re.findall(r'<svg viewBox="0 0 640 (\d+)"', text)
    assert max(int(y) for y in re.findall(r'<text x="560" y="(\d+)"', text)) <= int(height)


@pytest.mark.parametrize(
    "data",
    [
        {}, {"series": []}, {"times": "x", "series": {"a": 1}}, {"times": [None], "series": {"a": ["x", None]}},
        {"times": [0, float("inf")], "series": {"a": [float("nan"), 1e308]}}, {"times": [], "series": {"a": [1]}},
        {"times": [0, 10**400], "series": {"a": [10**400, -(10**400), True]}},
        {"times": [-5, -9], "series": {"<b>": [-40, -50]}},
    ],
)  # fmt: skip
def test_a_node_may_send_anything(data: dict[str, Any]) -> None:
    text = page("demo", {"gpu01": heat(**data)}, NOW)
    assert "<b>" not in text
    assert "nan" not in " ".join(drawn(text))
    assert "at most 71" in text


def test_the_report_names_the_odd_ones(enrolled: Context) -> None:
    for n, rate in enumerate((100.0, 101.0, 99.0, 55.0), 1):
        name = f"gpu{n:02}"
        install(enrolled, name)
        node = enrolled.inventory.nodes([name])
        verify.ask(enrolled, node)
        from headnode.workflows import deploy

        checks = [{"name": "burn-in stress-ng", "ok": True, "message": "60 s", "data": {"cpu_ops": rate}}]
        deploy.verified(enrolled, node[0], [*checks, *heat(times=[0], series={"cpu": [50]}), CLOCK])
    assert json.loads(headnode(enrolled.paths.root, "verify", "gpu[01-04]", "--last", "-o", "json").out)["outliers"]
    assert not (enrolled.paths.state / "burn-in").exists()
    found = headnode(enrolled.paths.root, "verify", "gpu[01-04]", "--last")
    assert headnode(enrolled.paths.root, "verify", "gpu[01-04]", "--last").err == found.err, "it is the same report"
    assert "outlier: gpu04: burn-in stress-ng cpu_ops is 55, the others have 99.5" in found.out
    (file,) = (enrolled.paths.state / "burn-in").iterdir()
    assert f"Report with plots: {file}" in found.err
    assert "gpu04: burn-in stress-ng cpu_ops is 55" in file.read_text()
    assert len(drawn(file.read_text())) == 4
    assert str(file) not in headnode(enrolled.paths.root, "verify", "gpu01", "--last").err, "another one, of one node"


def test_a_report_without_a_burn_in_is_none() -> None:
    assert not burnin.burned_in({"gpu01": [CLOCK], "gpu02": []})
