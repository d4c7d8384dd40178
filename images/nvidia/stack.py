"""The solver's answer: what a machine gets, item by item, each with its reason and where that is written down."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    PACKAGE = "package"
    COMPONENT = "component"
    ARCHIVE = "archive"
    PIN = "pin"
    KERNEL = "kernel argument"
    MODPROBE = "modprobe"
    MODULE = "module"
    SYSCTL = "sysctl"
    SERVICE = "service"
    CHECK = "check"
    RUNTIME = "runtime"
    ADVICE = "advice"


@dataclass(frozen=True)
class Item:
    kind: Kind
    value: str
    reason: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stack:
    """Everything, in the order in which it was concluded."""

    summary: str
    branch: int | None = None
    version: str | None = None
    modules: str | None = None
    items: tuple[Item, ...] = field(default=())

    def values(self, kind: Kind) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.value for item in self.items if item.kind is kind))

    @property
    def packages(self) -> tuple[str, ...]:
        """What apt is asked for; where a release is pinned, apt's preferences hold it."""
        return self.values(Kind.PACKAGE)

    @property
    def wanted(self) -> bool:
        return self.branch is not None


def items(kind: Kind, values: Iterable[str], reason: str, sources: Iterable[str] = ()) -> list[Item]:
    return [Item(kind, value, reason, tuple(dict.fromkeys(sources))) for value in values]
