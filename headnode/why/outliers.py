"""Nodes of one profile that differ from the others. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from headnode.fields import measurement

# With fewer nodes nobody can say who is the odd one.
FEWEST = 4
# Differences below this share of the middle are the weather.
SHARE = 0.1


@dataclass(frozen=True)
class Outlier:
    node: str
    what: str
    value: str
    others: str

    def __str__(self) -> str:
        return f"{self.node}: {self.what} is {self.value}, the others have {self.others}"


def outliers(reports: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Outlier]:
    """Node → its checks; what each check gave as data is compared with the same of the others."""
    values: dict[str, dict[str, Any]] = defaultdict(dict)
    for node, checks in reports.items():
        for check in checks:
            data = check.get("data")
            for key, value in data.items() if isinstance(data, Mapping) else ():
                values[f"{check.get('name')} {key}"][node] = value
    found: list[Outlier] = []
    for what, by_node in sorted(values.items()):
        found += numbers(what, by_node) + words(what, by_node)
    return found


def numbers(what: str, by_node: Mapping[str, Any]) -> list[Outlier]:
    """Far from the middle, measured by how far the others usually are: one bad node does not move either."""
    said = {node: found for node, value in by_node.items() if (found := measurement(value)) is not None}
    if len(said) < FEWEST:
        return []
    middle = median(said.values())
    usual = median(abs(value - middle) for value in said.values())
    allowed = max(6 * usual, SHARE * abs(middle))
    return [
        Outlier(node, what, f"{value:g}", f"{middle:g}")
        for node, value in said.items()
        if abs(value - middle) > allowed
    ]


def words(what: str, by_node: Mapping[str, Any]) -> list[Outlier]:
    """A few that say something else than most."""
    said = {node: value for node, value in by_node.items() if isinstance(value, str)}
    if len(said) < FEWEST:
        return []
    (most, count), *_ = Counter(said.values()).most_common(1)
    if count <= 0.7 * len(said):
        return []
    return [Outlier(node, what, value, most) for node, value in said.items() if value != most]
