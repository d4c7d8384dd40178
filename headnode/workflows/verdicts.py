"""What becomes of every row of a sheet, decided before anything is changed: all rows or none."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar


class Verdict(StrEnum):
    NEW = "new"
    UNCHANGED = "unchanged"
    PROBLEM = "problem"


class Judged(Protocol):
    @property
    def verdict(self) -> Verdict: ...

    @property
    def problems(self) -> tuple[str, ...]: ...


Item = TypeVar("Item", bound=Judged)


@dataclass(frozen=True)
class Judgement(Generic[Item]):
    items: tuple[Item, ...]

    def of(self, verdict: Verdict) -> list[Item]:
        return [item for item in self.items if item.verdict is verdict]

    @property
    def problems(self) -> list[str]:
        return [problem for item in self.items for problem in item.problems]

    @property
    def worst_first(self) -> list[Item]:
        """As people look at them: what they have to correct comes first."""
        return sorted(self.items, key=lambda item: item.verdict is not Verdict.PROBLEM)
