"""The pure parts around BMCs: folding, waves, escapes, replay, tickets, retention, events."""

import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode import sensorfiles as history
from headnode.bmcd import watching
from headnode.bmcd.metrics import Newest
from headnode.bmcd.tickets import LIFETIME, Ticket, Tickets
from headnode.bmcd.watching import Known
from headnode.bmclink import Answer
from headnode.cli.folded import explain_failures, fold_answers
from headnode.cli.terminal import Escapes, Wish
from headnode.errors import InvalidInput
from headnode.model import BmcAccess, Node, Severity
from headnode.sensorfiles import HOUR, History, Reading
from headnode.site import Site
from headnode.workflows import asking, bmcs, bmcscan, power
from headnode.workflows.consoles import Follower, LineFinder, pauses, shown
from headnode.workflows.context import Context
from ipmi.phases import Phase
from ipmi.readings import EventEntry, Health, SensorReading
from ipmi.recording import Kind, Record, Recording
from ipmi.stagger import watts

# Folding


def test_answers_that_are_alike_share_a_line() -> None:
    answers = [Answer(f"gpu{n:03}", "on") for n in range(1, 481)]
    answers += [Answer(f"gpu{n:03}", "unreachable", error="no answer", hint="cable") for n in range(481, 501)]
    assert fold_answers(answers) == ["gpu[001-480]: on", "gpu[481-500]: unreachable"]
    explained = explain_failures(answers)
    assert explained[0] == "gpu481: no answer"
    assert explained[3] == "… and 17 more nodes: unreachable"
    assert explained[4] == "  hint: cable"


# Waves


def racked(site: Site, budget: int | None) -> Site:
    rack = {"r1": {"budget_watts": budget}} if budget else {}
    return Site.model_validate({**site.model_dump(), "racks": rack, "bmc": {"surge_seconds": 7}})


def node(number: int, rack: str | None = "r1", watts: int = 3000) -> Node:
    return Node(f"gpu{number}", "gpu", bmc=BmcAccess(f"10.21.0.{number}"), rack=rack, settings={"start_watts": watts})


def test_a_racks_budget_makes_waves(site: Site) -> None:
    nodes = [node(n) for n in range(1, 6)]
    starts = power.planned_starts(racked(site, 7000), nodes)
    assert starts == {"gpu3": 7.0, "gpu4": 7.0, "gpu5": 14.0}
    assert power.planned_starts(racked(site, None), nodes) == {}
    assert power.planned_starts(racked(site, 7000), [node(n, rack=None) for n in range(5)]) == {}
    with pytest.raises(InvalidInput, match="rack r1 has 2000 W to spare"):
        power.planned_starts(racked(site, 2000), nodes)


def test_what_runs_in_a_rack_counts_by_its_sensors_or_as_if_it_started(site: Site) -> None:
    nodes = [node(n) for n in range(1, 6)]
    drawn = power.drawn(
        racked(site, 7000), [*nodes[:3], node(9, rack=None)], {"gpu1": 900.0, "gpu2": None, "gpu9": 1.0}
    )
    assert drawn == {"r1": 3900.0}
    assert power.planned_starts(racked(site, 7000), nodes[3:], drawn) == {"gpu5": 7.0}
    with pytest.raises(InvalidInput, match="gpu4 needs 3000 W to start, but rack r1 has 2100 W to spare"):
        power.planned_starts(racked(site, 6000), nodes[3:], drawn)


@pytest.mark.parametrize(
    ("readings", "drawn"),
    [
        ([("System Power", 1200, "W"), ("GPU0 Power", 300, "W"), ("Inlet Temp", 24, "C")], 1200),
        ([("PS1 Input Power", 400, "W"), ("PSU2 Power In", 500, "W"), ("PS1 Output Power", 380, "W")], 900),
        ([("PS1 Input Power", 400, "W"), ("PS2 Input Power", 500, "W"), ("Total Power", 910, "W")], 910),
        ([("System Power", None, "W"), ("Inlet Temp", 24, "C")], None),
    ],
)
def test_what_a_machine_draws(readings: list[tuple[str, float | None, str]], drawn: float | None) -> None:
    assert watts(SensorReading(name, value, unit, Health.OK) for name, value, unit in readings) == drawn


def test_the_head_node_is_known_by_its_bmc_and_by_its_ports(site: Site) -> None:
    own = Site.model_validate({**site.model_dump(), "bmc": {"head": "10.21.0.7"}})
    assert power.is_head(own, node(7), frozenset())
    assert not power.is_head(own, node(8), frozenset())


def test_nodes_that_cannot_be_asked_have_an_answer() -> None:
    answers = bmcs.unanswerable([Node("a", "gpu"), Node("b", "gpu", bmc=BmcAccess("10.21.0.1")), node(3)])
    assert [answer.status for answer in answers] == ["no BMC", "no password", "no password"]


@pytest.mark.parametrize("request_", [{}, {"verb": "no"}, {"verb": "power", "action": "melt"}, {"verb": "identify"}])
def test_questions_that_make_no_sense_are_refused(request_: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        bmcs.question(request_)


# Escapes


@pytest.mark.parametrize(
    ("typed", "sent", "wishes"),
    [
        (b"ls\r", b"ls\r", []),
        (b"~.", b"", [Wish.LEAVE]),
        (b"ls\r~.more", b"ls\r", [Wish.LEAVE]),
        (b"~?", b"", [Wish.HELP]),
        (b"~?~.", b"", [Wish.HELP, Wish.LEAVE]),
        (b"~~.", b"~.", []),
        (b"~x", b"~x", []),
        (b"a~.", b"a~.", []),
        (b"cd ~/x\r", b"cd ~/x\r", []),
        (b"~\r", b"~\r", []),
    ],
)
def test_escapes(typed: bytes, sent: bytes, wishes: list[Wish]) -> None:
    assert Escapes().feed(typed) == (sent, wishes)
    # In single keystrokes it is the same.
    escapes, out = Escapes(), b""
    seen: list[Wish] = []
    for byte in typed:
        data, wished = escapes.feed(bytes([byte]))
        out, seen = out + data, [*seen, *wished]
        if Wish.LEAVE in seen:
            break
    assert (out, seen) == (sent, wishes)


@given(st.binary(max_size=50).filter(lambda data: b"~" not in data))
def test_without_a_tilde_every_byte_goes_to_the_node(data: bytes) -> None:
    assert Escapes().feed(data) == (data, [])


# Replay and search


def test_replay_keeps_the_pace_times_the_speed() -> None:
    records = [Record(Kind.DATA, at, b"x") for at in (100.0, 101.0, 106.0, 9999.0, 9998.0)]
    assert [pause for pause, _ in pauses(records, 10.0)] == [0.0, 0.1, 0.5, 5.0, 0.0]


def test_where_it_was_deaf_is_shown() -> None:
    assert b"[console: deaf from" in shown(Record(Kind.HEARING, 0.0, b"deaf from a to b"))


def test_lines_are_found_across_records_and_colours() -> None:
    finder = LineFinder(re.compile("Xid 79"))
    assert list(finder.feed(Record(Kind.DATA, 1.0, b"boot\r\nNVRM: \x1b[31mXid "))) == []
    assert list(finder.feed(Record(Kind.DATA, 2.0, b"79\x1b[0m, GPU has fallen off the bus\r\n"))) == [
        (1.0, "NVRM: Xid 79, GPU has fallen off the bus")
    ]


def test_a_prompt_is_found_though_nothing_follows_it() -> None:
    finder = LineFinder(re.compile("login:"))
    assert list(finder.feed(Record(Kind.DATA, 3.0, b"Debian\r\ngpu01 login: "))) == []
    assert list(finder.last()) == [(3.0, "gpu01 login:")]


def test_a_follower_reads_each_record_once_over_segments(tmp_path: Path) -> None:
    recording = Recording(tmp_path, segment_bytes=200)
    follower = Follower(tmp_path)
    seen = b""
    for number in range(30):
        recording.write(Kind.DATA, f"line {number}\n".encode())
        if number % 4 == 0:
            seen += b"".join(record.data for record in follower.new())
    seen += b"".join(record.data for record in follower.new())
    assert seen == b"".join(f"line {n}\n".encode() for n in range(30))
    assert list(Follower.at_end(tmp_path).new()) == []
    assert len(list(Follower.since(tmp_path, 0.0).new())) == 30
    assert 0 < len(list(Follower.since(tmp_path, recording.clock()).new())) < 30
    recording.close()


# Tickets


def test_a_ticket_opens_one_console_once_and_soon() -> None:
    tickets = Tickets()
    wanted = Ticket("gpu01", "ann", write=True)
    code = tickets.issue(wanted, now=0.0)
    assert tickets.redeem("guess", "gpu01", 1.0) is None
    assert tickets.redeem(code, "gpu01", 1.0) == wanted
    assert tickets.redeem(code, "gpu01", 1.0) is None
    assert tickets.redeem(tickets.issue(wanted, 0.0), "gpu02", 1.0) is None
    assert tickets.redeem(tickets.issue(wanted, 0.0), "gpu01", LIFETIME) is None
    tickets.issue(wanted, LIFETIME * 2)
    assert len(tickets.issued) == 1


# Retention


def test_hours_are_lowest_mean_and_highest() -> None:
    readings = [Reading(10.0, {"t": 1.0}), Reading(20.0, {"t": 3.0, "w": 5.0}), Reading(HOUR + 1.0, {"t": 9.0})]
    first, second = history.downsample(readings)
    assert (first.at, first.values) == (0, {"t": (1.0, 2.0, 3.0), "w": (5.0, 5.0, 5.0)})
    assert (second.at, second.values) == (HOUR, {"t": (9.0, 9.0, 9.0)})


def test_files_go_when_their_newest_line_is_too_old() -> None:
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    names = [
        "raw-20261116.csv",
        "raw-20261114.csv",
        "raw-20261113.csv",
        "hours-202611.csv",
        "hours-202508.csv",
        "x.csv",
    ]
    assert history.overdue(names, now, raw_hours=48, history_days=400) == ["raw-20261113.csv", "hours-202508.csv"]


def test_history_survives_torn_lines_and_changing_sensors(tmp_path: Path) -> None:
    day = 1_800_000_000.0 // 86_400 * 86_400
    kept = History(tmp_path)
    kept.add(Reading(day, {"t": 20.0}))
    kept.add(Reading(day + 60, {"t": 22.0, "fan, left": 8000.0}))
    (raw,) = tmp_path.glob("raw-*")
    with raw.open("a") as file:
        file.write("18000")
    again = History(tmp_path)
    again.add(Reading(day + HOUR, {"t": 30.0}))
    assert [reading.values for reading in again.readings()] == [
        {"t": 20.0},
        {"t": 22.0, "fan, left": 8000.0},
        {"t": 30.0},
    ]
    for _ in range(2):  # the second time there is nothing left to do
        again.condense(day + HOUR + 30)
    (hour,) = again.hours()
    assert hour.values == {"t": (20.0, 21.0, 22.0), "fan, left": (8000.0, 8000.0, 8000.0)}
    again.forget(day + 10 * 86_400, raw_hours=48, history_days=400)
    assert not list(tmp_path.glob("raw-*"))
    assert list(tmp_path.glob("hours-*"))


# Events


def test_a_threshold_is_an_event_when_it_is_crossed() -> None:
    known = Known()
    hot = SensorReading("Inlet Temp", 44.0, "C", Health.CRITICAL)
    (event,) = watching.sensor_events("gpu01", known, [hot])
    assert (event.message, event.severity) == ("Inlet Temp is critical at 44 C", Severity.ERROR)
    assert watching.sensor_events("gpu01", known, [hot]) == []
    again = Known.parse(str(known))
    assert watching.sensor_events("gpu01", again, [hot]) == []
    (event,) = watching.sensor_events("gpu01", again, [SensorReading("Inlet Temp", 24.0, "C")])
    assert "well again" in event.message


def test_only_new_log_entries_are_events() -> None:
    known = Known()
    old, new = (EventEntry(str(n), None, "PSU1", f"failed {n}", Health.CRITICAL) for n in range(2))
    assert watching.log_events("gpu01", known, [old]) == []
    assert [event.message for event in watching.log_events("gpu01", known, [old, new])] == ["PSU1: failed 1"]
    assert watching.log_events("gpu01", known, []) == []  # cleared
    assert Known.parse("garbage").entries is None


def test_a_bmc_that_comes_and_goes_is_told_once() -> None:
    known = Known()
    assert watching.status_event("gpu01", known, "ok", "") == []
    assert len(watching.status_event("gpu01", known, "unreachable", "no answer")) == 1
    assert watching.status_event("gpu01", known, "unreachable", "no answer") == []
    assert "again" in watching.status_event("gpu01", known, "ok", "")[0].message


def test_every_phase_has_words() -> None:
    assert set(watching.PHASES) == set(Phase)
    assert watching.phase_event("gpu01", Phase.PANIC).severity is Severity.ERROR


def test_metrics_are_what_prometheus_reads() -> None:
    newest = Newest()
    newest.of("gpu01").answers = True
    newest.of("gpu01").sensors = (SensorReading("Inlet Temp", 24.0, "C", Health.WARNING),)
    page = newest.page().decode()
    assert 'headnode_bmc_up{node="gpu01"} 1.0' in page
    assert 'headnode_sensor{node="gpu01",sensor="Inlet Temp",unit="C"} 24.0' in page
    assert 'headnode_sensor_bad{node="gpu01",sensor="Inlet Temp"} 1.0' in page


# Scan


def test_vendor_passwords_are_tried_without_hammering_one_account() -> None:
    tried = bmcscan.candidates(None)
    assert len({(c.user, c.password) for c in tried}) == len(tried) > 5
    assert all(one.user != two.user for one, two in pairwise(tried[:5]))


def test_a_node_without_bmc_is_an_answer_and_not_an_error(context: Context) -> None:
    answers = asking.ask(context, [Node("gpu01", "gpu")], {"verb": "power", "action": "status"})
    assert [(answer.name, answer.status, answer.ok) for answer in answers] == [("gpu01", "no BMC", False)]
