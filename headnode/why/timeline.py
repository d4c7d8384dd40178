"""One node's events in one order, on one clock.

Everything is stamped by the head node's clock; what a node or a BMC stamped itself was moved to it when it was recorded
(headnode/workflows/deploy.py). Logs know whole seconds only, so within a second the order of arrival counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from headnode.model import Event, Severity

# dnsmasq writes whole seconds: what it saw may have happened up to a second after its stamp.
COARSE = timedelta(seconds=1)
FETCHES = ("http", "tftp.sent", "tftp.failed")
BEGINNING = datetime.min.replace(tzinfo=UTC)


def moment(event: Event) -> datetime:
    return event.at or BEGINNING


def latest(event: Event) -> datetime:
    """The last moment at which it may have happened: only logs write whole seconds."""
    at = moment(event)
    return at if at.microsecond else at + COARSE


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    return tuple(sorted(events, key=lambda event: (moment(event).replace(microsecond=0), event.id)))


@dataclass(frozen=True)
class Timeline:
    events: tuple[Event, ...] = ()

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Timeline":
        return cls(in_order(events))

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def since(self, at: datetime | None) -> "Timeline":
        if at is None:
            return self
        return Timeline(tuple(event for event in self.events if latest(event) >= at))

    def after(self, event: Event | None) -> "Timeline":
        """What came after an event; everything when there was none."""
        if event is None or event not in self.events:
            return self
        return Timeline(self.events[self.events.index(event) + 1 :])

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Kind → where its events are: dozens of rules look for a few kinds among thousands of events."""
        found: dict[str, list[int]] = {}
        for place, event in enumerate(self.events):
            found.setdefault(event.kind, []).append(place)
        return found

    def _at(self, kinds: Iterable[str]) -> list[int]:
        chosen = [kind for kind in self._places if any(is_kind(kind, wanted) for wanted in kinds)]
        return sorted(place for kind in chosen for place in self._places[kind])

    def kinds(self, *kinds: str) -> "Timeline":
        """Events of these kinds; `dhcp.` means all that begin like that."""
        return Timeline(tuple(self.events[place] for place in self._at(kinds)))

    def last(self, *kinds: str) -> Event | None:
        places = self._at(kinds)
        return self.events[places[-1]] if places else None

    def first(self, *kinds: str) -> Event | None:
        places = self._at(kinds)
        return self.events[places[0]] if places else None

    def saying(self, *words: str) -> "Timeline":
        return Timeline(tuple(e for e in self.events if any(word in e.message for word in words)))

    def bad(self) -> "Timeline":
        return Timeline(tuple(event for event in self.events if event.severity is not Severity.INFO))

    def fetched(self, *parts: str, good: bool = True) -> "Timeline":
        """What was fetched over HTTP or TFTP, with or without success, by parts of its path."""
        return Timeline(tuple(e for e in self.kinds(*FETCHES) if was_fetched(e, parts, good)))

    def scripts(self) -> "Timeline":
        """Boot scripts that were fetched: what the head node tells a machine to do."""
        return Timeline(tuple(event for event in self.kinds(*FETCHES) if is_script(event)))

    def phases(self, *phases: str) -> "Timeline":
        return Timeline(tuple(e for e in self.kinds("console.phase") if e.data.get("phase") in phases))


def is_kind(kind: str, wanted: str) -> bool:
    return kind.startswith(wanted) if wanted.endswith(".") else kind == wanted


def is_script(event: Event) -> bool:
    if event.kind == "http":
        return str(event.data.get("path", "")).partition("?")[0] == "/boot" and int(event.data.get("status", 0)) < 400
    return event.kind == "tftp.sent" and str(event.data.get("file", "")).endswith((".grub", "grub.cfg"))


def was_fetched(event: Event, parts: tuple[str, ...], good: bool) -> bool:
    if event.kind == "http":
        path, well = str(event.data.get("path", "")), int(event.data.get("status", 0)) < 400
    elif event.kind in ("tftp.sent", "tftp.failed"):
        path, well = str(event.data.get("file", "")), event.kind == "tftp.sent"
    else:
        return False
    return well is good and any(part in path for part in parts)
