"""One order on one clock, and what counts as having happened since."""

from datetime import UTC, datetime, timedelta

from headnode.bmcd.watching import phase_event
from headnode.model import Event, Sighting
from headnode.reconcile.watching import Watcher
from headnode.why.timeline import Timeline
from headnode.workflows import enroll
from headnode.workflows.context import Context
from ipmi.phases import Phase, PhaseRecogniser
from tests.support import row_of

NOON = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)


def event(kind: str, seconds: float, number: int = 0) -> Event:
    return Event(kind, kind, "", "", "gpu01", at=NOON + timedelta(seconds=seconds), id=number)


def kinds(timeline: Timeline) -> list[str]:
    return [event.kind for event in timeline]


def test_time_orders_and_within_a_second_arrival() -> None:
    found = Timeline.of([event("late", 5, 1), event("agent", 1.7, 2), event("dhcp.ack", 1, 3), event("early", 0, 4)])
    assert kinds(found) == ["early", "agent", "dhcp.ack", "late"]


def test_logs_know_whole_seconds_only() -> None:
    """Asked at 12:00:00.6: what a log stamps 12:00:00 may be after it, what a clock stamps .5 is not."""
    found = Timeline.of([event("verify", 0.5), event("dhcp.ack", 0), event("old", -3)])
    assert kinds(found.since(NOON + timedelta(seconds=0.6))) == ["dhcp.ack"]


def test_kinds_by_name_and_by_beginning() -> None:
    found = Timeline.of([event("dhcp.ack", 1), event("http", 2), event("dhcp.nak", 3), event("dhcp", 4)])
    assert kinds(found.kinds("dhcp.")) == ["dhcp.ack", "dhcp.nak"]
    assert kinds(found.kinds("http", "dhcp")) == ["http", "dhcp"]
    assert found.last("dhcp.") == found.events[2]
    assert found.first("none") is None
    assert kinds(found.after(found.last("http"))) == ["dhcp.nak", "dhcp"]


def test_errors_on_the_console_keep_their_line() -> None:
    recogniser = PhaseRecogniser()
    said = b"iPXE 1.21\r\nPXE-E61: Media test failure, check cable\r\n\x1b[31mgrub rescue> "
    assert recogniser.feed(said) == [Phase.PXE, Phase.PXE_ERROR, Phase.GRUB_RESCUE]
    found = phase_event("gpu01", Phase.PXE_ERROR, recogniser.shown[Phase.PXE_ERROR])
    assert found.message == "console: its network boot failed: PXE-E61: Media test failure, check cable"
    hostile = phase_event("gpu01", Phase.PANIC, b"Kernel panic \x1b]0;x\x07" + b"A" * 1000)
    assert hostile.message.isprintable()
    assert len(hostile.data["line"]) <= 200


def test_firmware_is_named_once_for_each_boot(context: Context) -> None:
    assert enroll.enroll(context, [row_of(1)]).problems == []
    watcher = Watcher(context)
    for _ in range(3):
        watcher.note_architectures([("gpu01", Sighting("52:54:00:aa:00:01", NOON, NOON, "bios"))])
    watcher.note_architectures([("gpu01", Sighting("52:54:00:aa:00:01", NOON, NOON, "uefi_x64"))])
    watcher.note_architectures([("gpu01", Sighting("52:54:00:aa:00:01", NOON, NOON, None))])
    said = [event.message for event in context.inventory.events("gpu01") if event.kind == "dhcp.architecture"]
    assert said == ["its firmware is bios", "its firmware is uefi_x64"]
