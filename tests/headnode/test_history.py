"""Forgetting old events, as the reconcile process does it."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from headnode.model import Event
from headnode.reconcile import duties
from headnode.workflows import enroll
from headnode.workflows.context import Context
from tests.support import headnode, row_of


def happened(context: Context, kind: str, days_ago: float, count: int = 1) -> None:
    at = datetime.now(UTC) - timedelta(days=days_ago)
    with context.inventory.change("test", "test") as change:
        change.record_all(Event(kind, kind, "", "", "gpu01", at=at) for _ in range(count))


def test_what_is_older_than_the_site_wants_is_forgotten(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duties, "EVENTS_AT_ONCE", 10)
    monkeypatch.setattr(duties, "HOUR", 0.0)
    with context.paths.site_file.open("a") as file:
        file.write("\ndatabase: {keep_days: 90}\n")
    at = Context(context.paths, "reconcile", "test")
    happened(at, "deploy", 100)
    happened(at, "http", 91, 25)
    happened(at, "http", 89, 5)
    pulse = at.inventory.pulse()
    stop = threading.Event()
    worker = threading.Thread(target=duties.forget_old_events, args=(at, stop))
    worker.start()
    while len(at.inventory.events(limit=1000)) > 6:
        time.sleep(0.02)
    stop.set()
    worker.join()
    assert [event.kind for event in at.inventory.events(limit=1000)] == ["deploy", *["http"] * 5]
    assert at.inventory.pulse() == pulse, "no page looks again because the past was forgotten"
    at.close()


def test_a_clock_has_an_hour_to_be_put_right_before_anything_is_forgotten(context: Context) -> None:
    """A head node that starts with its clock years ahead takes everything for old."""
    pauses: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return True

    duties.forget_old_events(context, Stop())
    assert pauses == [3600.0]


def test_a_deployment_that_may_still_run_keeps_its_events(context: Context) -> None:
    """The longest work there is, a burn-in of three days with all its slack, ends before anything is forgotten."""
    from headnode.lifecycle import WORKING
    from headnode.workflows.verify import LONGEST_BURN_IN, SLACK

    least = 30
    assert max(WORKING.values()) + SLACK * LONGEST_BURN_IN < timedelta(days=least)
    assert enroll.enroll(context, [row_of(1)]).problems == []
    with context.paths.site_file.open("a") as file:
        file.write(f"\ndatabase: {{keep_days: {least - 1}}}\n")
    found = headnode(context.paths.root, "nodes")
    assert found.code == 2
    assert "database.keep_days is '29'; use a whole number of at least 30" in found.err
