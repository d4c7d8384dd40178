"""The clock: what chronyd is told, who may move this machine's clock, and what is made of the answers."""

import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode import clock, ntp, sitefile
from headnode.errors import InvalidSite, PublishFailed
from headnode.model import State
from headnode.paths import Paths
from headnode.site import Site
from headnode.workflows import clocks, deploy, enroll
from headnode.workflows.context import Context
from images.agent import firstboot
from tests.support import node_of, row_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TRACKED = "0A140001,10.20.0.1,9,1794961885.0,-0.000120000,0.0,0.0,0.0,0.0,0.0,0.0,0.0,64.0,Normal"


def configured(site: Site, **time: object) -> str:
    changed = site.model_copy(update={"time": site.time.model_validate(time)})
    return clock.Clock(Paths(Path("/"))).site_files(changed)[clock.CONFIG].content.decode()


def test_an_isolated_site_has_its_own_clock(site: Site) -> None:
    lines = configured(site, servers=[]).splitlines()
    assert "local stratum 8" in lines
    assert not [line for line in lines if line.startswith(("server", "pool"))]


def test_upstream_servers_are_asked_and_a_lost_one_leaves_one_clock(site: Site) -> None:
    lines = configured(site, servers=["ntp.example.org", "2.debian.pool.ntp.org"]).splitlines()
    assert {"server ntp.example.org iburst", "pool 2.debian.pool.ntp.org iburst", "local stratum 10"} <= set(lines)


def test_nts_is_asked_for_and_nothing_else_is_believed(site: Site) -> None:
    text = configured(site, servers=["ntp.example.org"], nts=True)
    assert "server ntp.example.org iburst nts\n" in text
    assert "authselectmode require" in text


def test_only_the_clusters_networks_are_allowed(site: Site) -> None:
    allowed = [line for line in configured(site).splitlines() if line.startswith("allow")]
    assert allowed == ["allow 10.20.0.0/16", "allow 10.21.0.0/16"]


@pytest.mark.program("chronyd")
@pytest.mark.parametrize("time", [{}, {"servers": []}, {"servers": ["a.example.org"], "nts": True}])
def test_chronyd_takes_its_file(site: Site, tmp_path: Path, time: dict[str, object]) -> None:
    (tmp_path / "chrony.conf").write_text(configured(site, **time))
    assert clock.ask_chronyd(tmp_path / "chrony.conf") == []


@pytest.mark.program("chronyd")
def test_a_file_that_chronyd_refuses_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "chrony.conf").write_text("local stratum 8\nalow 10.0.0.0/8\n")
    with pytest.raises(PublishFailed, match="Invalid directive at line 2"):
        clock.ask_chronyd(tmp_path / "chrony.conf")


@pytest.mark.parametrize("server", ["a b", "x;y", "-x", "ntp.example.org offline", ""])
def test_a_server_is_a_name_and_nothing_more(server: str, root: Path) -> None:
    text = (root / "etc/headnode/site.yaml").read_text().replace("[2.debian.pool.ntp.org]", f'["{server}"]')
    with pytest.raises(InvalidSite, match=r"time.servers\[0\]"):
        sitefile.parse(text.encode(), "site.yaml")


ALL, NO_TIME = "CapEff:\t000001ffffffffff\n", "CapEff:\t000001fffdffffff\n"


@pytest.mark.parametrize(
    ("root", "status", "may"), [("/", ALL, True), ("/", NO_TIME, False), ("/tmp/lab", ALL, False), ("/", "", False)]
)
def test_a_lab_and_a_container_leave_the_clock_alone(root: str, status: str, may: bool) -> None:
    assert clock.may_set_clock(Paths(Path(root)), status) is may


def test_tracking_is_understood() -> None:
    found = clock.parse_tracking(TRACKED)
    assert found is not None
    assert (found.reference, found.stratum, found.synchronised) == ("10.20.0.1", 9, True)
    assert found.offset_ms == pytest.approx(-0.12)
    assert clock.parse_tracking("7F7F0101,,8,1.0,0.0,0,0,0,0,0,0,0,0,Normal") == clock.Tracking(
        "its own clock", 8, 0.0, True
    )
    assert clock.parse_tracking("506 Cannot talk to daemon") is None


# NTP, as RFC 5905 says it.


def reply(cookie: int, arrived: float, left: float, *, first: int = 0x24, stratum: int = 9) -> bytes:
    def stamp(moment: float) -> int:
        return int((moment + ntp.EPOCH) * 2**32) & (2**64 - 1)

    return struct.pack("!BB22xQQQ", first, stratum, cookie, stamp(arrived), stamp(left))


@given(st.floats(-1e5, 1e5), st.floats(0, 2), st.floats(0, 2), st.floats(0, 2))
def test_the_offset_is_found_whatever_the_way_takes(ahead: float, there: float, busy: float, back: float) -> None:
    """Exact when both ways take the same time, and never wrong by more than half the way."""
    sent = 1_900_000_000.0
    arrived = sent + there + ahead
    answer = ntp.understood(reply(7, arrived, arrived + busy), 7, sent, sent + there + busy + back)
    assert answer is not None
    assert answer.offset_ms / 1000 == pytest.approx(ahead, abs=(there + back) / 2 + 1e-4)
    assert answer.delay_ms / 1000 == pytest.approx(there + back, abs=1e-4)


def test_the_year_2036_is_no_end() -> None:
    sent = 2_085_978_496.0 + 1000
    answer = ntp.understood(reply(7, sent + 90, sent + 90), 7, sent, sent)
    assert answer is not None
    assert answer.offset_ms == pytest.approx(90_000, abs=1)


@pytest.mark.parametrize(
    "packet", [b"", b"\x24" * 47, reply(8, 1e9, 1e9), reply(7, 1e9, 1e9, first=0x23), reply(7, 1e9, -ntp.EPOCH)]
)
def test_what_is_no_answer_to_our_question_is_nothing(packet: bytes) -> None:
    assert ntp.understood(packet, 7, 1e9, 1e9) is None


@given(st.binary(max_size=200))
def test_garbage_is_nothing(packet: bytes) -> None:
    assert ntp.understood(packet, 7, 1e9, 1e9) is None


@pytest.mark.parametrize(("first", "stratum"), [(0xE4, 9), (0x24, 0), (0x24, 16)])
def test_an_unsynchronised_clock_says_so(first: int, stratum: int) -> None:
    answer = ntp.understood(reply(7, 1e9, 1e9, first=first, stratum=stratum), 7, 1e9, 1e9)
    assert answer is not None
    assert not answer.synchronised


# What a node says of its clock, and what becomes of it.


@pytest.mark.parametrize(
    ("tracking", "ok", "words"),
    [
        (TRACKED, True, "0.120 ms off, stratum 9, from 10.20.0.1"),
        (TRACKED.replace("-0.000120000", "0.250"), False, "250.000 ms off, stratum 9"),
        (TRACKED.replace("Normal", "Not synchronised"), False, "not synchronised"),
        ("", False, "chrony does not say"),
        ("506 Cannot talk to daemon", False, "chrony does not say"),
    ],
)
def test_a_node_judges_its_clock(tracking: str, ok: bool, words: str) -> None:
    found = firstboot.clock(tracking, 100)
    assert found["ok"] is ok
    assert words in str(found["message"])
    assert ("stratum" in found) == tracking.startswith("0A14")


def verifying(context: Context) -> None:
    from dataclasses import replace

    enroll.enroll(context, [row_of(1)])
    with context.inventory.change("test", "test") as change:
        change.replace([replace(node, state=State.VERIFYING) for node in change.nodes(["gpu01"])])


@pytest.mark.parametrize(
    ("check", "state"),
    [
        ({"name": "clock", "ok": True, "message": "", "offset_ms": 0.2, "stratum": 9}, State.UP),
        ({"name": "clock", "ok": True, "message": "", "offset_ms": -100.5, "stratum": 9}, State.FAILED),
        ({"name": "clock", "ok": True, "message": ""}, State.FAILED),
        ({"name": "clock", "ok": True, "message": "", "offset_ms": "0", "stratum": 9}, State.FAILED),
        ({"name": "clock", "ok": True, "message": "", "offset_ms": float("nan"), "stratum": 9}, State.FAILED),
        ({"name": "clock", "ok": True, "message": "", "offset_ms": 10**400, "stratum": 9}, State.FAILED),
        ({"name": "hostname", "ok": True, "message": ""}, State.FAILED),
    ],
)
def test_the_head_node_decides_by_the_number(context: Context, check: dict[str, object], state: State) -> None:
    """A node that says nothing of its clock, or calls a large offset fine, is not up."""
    verifying(context)
    node = context.inventory.node("gpu01")
    assert node is not None
    assert deploy.verified(context, node, [check]) is state


def test_outliers_come_first_and_old_news_is_marked(context: Context) -> None:
    enroll.enroll(context, [row_of(number) for number in range(1, 6)])
    nodes = context.inventory.nodes()
    answers = {
        str(nodes[0].address): ntp.Answer(0.5, 1.0, 9, True),
        str(nodes[1].address): ntp.Answer(-90_000.0, 1.0, 9, True),
        str(nodes[2].address): ntp.Answer(3.0, 1.0, 9, True),
        str(nodes[3].address): ntp.Answer(0.0, 1.0, 16, False),
    }
    found = clocks.readings(context, nodes, ask=lambda asked: answers)
    assert [(reading.node, reading.state) for reading in found] == [
        ("head", "unknown"), ("gpu02", "off"), ("gpu04", "unsynchronised"), ("gpu03", "ok"), ("gpu01", "ok"),
        ("gpu05", "enrolled"),
    ]  # fmt: skip


def test_a_silent_node_is_shown_with_what_it_said_and_when(context: Context) -> None:
    verifying(context)
    node = context.inventory.node("gpu01")
    assert node is not None
    deploy.verified(context, node, [{"name": "clock", "ok": True, "message": "", "offset_ms": 0.25, "stratum": 9}])
    up = context.inventory.nodes(["gpu01"])
    _, reading = clocks.readings(context, up, ask=lambda asked: {})
    assert (reading.state, reading.offset_ms, reading.stratum, reading.source) == ("silent", 0.25, 9, "its own report")
    event = context.inventory.history.newest("verify", ["gpu01"])["gpu01"]
    assert event.at is not None
    later = clocks.reported(up[0], event, event.at + timedelta(hours=3))
    assert later.age == 3 * 3600
    assert clocks.reported(node_of(9), None, NOW).source == "never heard"


def test_a_clock_that_goes_wrong_later_is_told_once_and_once_when_it_is_right(context: Context) -> None:
    verifying(context)
    node = context.inventory.node("gpu01")
    assert node is not None
    deploy.verified(context, node, [{"name": "clock", "ok": True, "message": "", "offset_ms": 0.0, "stratum": 9}])
    address = str(node.address)

    def look(offset_ms: float | None) -> None:
        answers = {} if offset_ms is None else {address: ntp.Answer(offset_ms, 1.0, 9, True)}
        clocks.note_outliers(context, ask=lambda asked: answers)

    for offset in (0.1, 5000.0, 5001.0, None, 4999.0, 0.2, None, 0.1):
        look(offset)
    told = [event.message for event in context.inventory.events("gpu01") if event.kind == "clock"]
    assert told == ["its clock is off: 5000.0 ms; at most 100 ms is allowed", "its clock is right again: 0.2 ms"]
