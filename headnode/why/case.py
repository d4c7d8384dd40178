"""What the engine is given, and what it answers: plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from headnode.model import Event, Node, Sighting, State
from headnode.why.timeline import Timeline


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        return [*Confidence].index(self)


class Stage(StrEnum):
    """The steps of a node's way, in their order; a chain is those of them that what was asked for needs."""

    ENROLLED = "enrolled"
    PUBLISHED = "published"
    POWER = "power"
    DHCP = "dhcp"
    ADDRESS = "address"
    LOADER = "loader"
    SCRIPT = "script"
    KERNEL = "kernel"
    RAMDISK = "ramdisk"
    AGENT = "agent"
    INVENTORY = "inventory"
    PLAN = "plan"
    WORK = "work"
    DISK = "disk"
    REPORT = "report"
    UP = "up"


@dataclass(frozen=True)
class Asked:
    """What was asked of the node, and when."""

    what: str = "nothing"
    at: datetime | None = None
    image: str | None = None
    # The agent's last step, and how the work ended, when it has.
    step: str | None = None
    result: str | None = None

    def __str__(self) -> str:
        return f"{self.what} of {self.image}" if self.image else self.what


@dataclass(frozen=True)
class Case:
    """Everything known about one node at one moment."""

    name: str
    now: datetime
    node: Node | None = None
    asked: Asked = Asked()
    # Of the node since it was asked, and of the head node itself in the same time.
    timeline: Timeline = field(default_factory=Timeline)
    head: Timeline = field(default_factory=Timeline)
    # Unknown hardware whose MAC is nearly the node's; for a name that nobody enrolled, all unknown hardware.
    sightings: tuple[Sighting, ...] = ()
    # Foreign DHCP servers as the last regular look found them.
    foreign: tuple[str, ...] = ()
    hardware: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: bool = True
    # Whether the head node's services run; nothing when nobody could tell.
    serving: bool | None = None
    # Whether what happened since it was asked is too long ago to be known: then silence says nothing.
    forgotten: bool = False

    @property
    def failed(self) -> Event | None:
        """The end of what was asked for, when it ended badly."""
        return self.timeline.last("failed") if self.node and self.node.state == "failed" else None

    @property
    def reason(self) -> str:
        return (self.node.reason or "") if self.node else ""

    @property
    def waited(self) -> timedelta:
        return self.now - self.asked.at if self.asked.at else timedelta()


@dataclass(frozen=True)
class Step:
    """One stage of the expected chain, and what showed that it was reached."""

    stage: Stage
    words: str
    reached: bool
    at: datetime | None = None


@dataclass(frozen=True)
class Finding:
    """What a rule found. `next` is a command; {node} in it stands for the node, or for all that share the cause."""

    cause: str
    sentence: str
    confidence: Confidence
    next: str
    evidence: tuple[Event, ...] = ()


@dataclass(frozen=True)
class View:
    """A case with its chain: what rules look at."""

    case: Case
    chain: tuple[Step, ...]

    @property
    def missing(self) -> Stage | None:
        """The first stage that was not reached."""
        return next((step.stage for step in self.chain if not step.reached), None)

    @property
    def reached(self) -> Stage | None:
        return next((step.stage for step in reversed(self.chain) if step.reached), None)

    @property
    def timeline(self) -> Timeline:
        return self.case.timeline


@dataclass(frozen=True)
class Answer:
    name: str
    state: str
    asked: Asked
    chain: tuple[Step, ...]
    finding: Finding | None
    # Other findings, the likelier first.
    others: tuple[Finding, ...] = ()
    # Nothing is wrong: either it is up, or it is under way and in time.
    words: str = "nothing wrong"

    @property
    def sentence(self) -> str:
        return self.finding.sentence if self.finding else self.words

    @property
    def standing(self) -> str:
        """Its state, as what follows 'it is'."""
        return "in maintenance" if self.state == State.MAINTENANCE else self.state
