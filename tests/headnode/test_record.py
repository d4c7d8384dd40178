"""What logs say, understood: by whom, without being fooled by what nodes send."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headnode.workflows import record
from headnode.workflows.record import Limiter, Observation, Owners, from_dnsmasq, from_management, from_nginx

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
OWNERS = Owners({"52:54:00:aa:00:01": "gpu01"}, {"10.20.1.1": "gpu01", "10.20.1.2": "gpu02"})


def line(words: str, program: str = "dnsmasq-dhcp") -> str:
    return f"Jan  2 11:59:58 {program}[77]: {words}"


@pytest.mark.parametrize(
    ("words", "kind", "message", "address"),
    [
        ("DHCPDISCOVER(eth0) 52:54:00:aa:00:01 ", "dhcp.discover", "asked for an address", None),
        ("DHCPDISCOVER(eth0) 10.20.1.9 52:54:00:aa:00:01 ", "dhcp.discover", "asked for an address", "10.20.1.9"),
        (
            "DHCPDISCOVER(eth0) 52:54:00:aa:00:01 ignored",
            "dhcp.ignored",
            "asked for an address and got no answer",
            None,
        ),
        ("DHCPOFFER(eth0) 10.20.1.1 52:54:00:aa:00:01 ", "dhcp.offer", "was offered 10.20.1.1", "10.20.1.1"),
        ("DHCPACK(eth0) 10.20.1.1 52:54:00:aa:00:01 gpu01", "dhcp.ack", "got 10.20.1.1", "10.20.1.1"),
        ("3471 DHCPACK(eth0) 10.20.1.1 52:54:00:aa:00:01 gpu01", "dhcp.ack", "got 10.20.1.1", "10.20.1.1"),
        ("DHCPNAK(eth0) 10.9.9.9 52:54:00:aa:00:01 wrong network", "dhcp.nak", "was refused 10.9.9.9", "10.9.9.9"),
    ],
)
def test_dhcp_lines(words: str, kind: str, message: str, address: str | None) -> None:
    seen = from_dnsmasq(line(words), NOW)
    assert seen is not None
    assert (seen.kind, seen.message, seen.mac, seen.address) == (kind, message, "52:54:00:aa:00:01", address)


def test_tftp_lines() -> None:
    sent = from_dnsmasq(line("sent /srv/tftp/ipxe.efi to 10.20.1.1", "dnsmasq-tftp"), NOW)
    assert sent is not None
    assert (sent.kind, sent.message, sent.address) == ("tftp.sent", "fetched ipxe.efi over TFTP", "10.20.1.1")
    failed = from_dnsmasq(line("file /srv/tftp/no such not found for 10.20.1.1", "dnsmasq-tftp"), NOW)
    assert failed is not None
    assert failed.message == "could not fetch no such over TFTP"


@pytest.mark.parametrize(
    "words",
    [
        "file /srv/x not found for 10.20.1.2 not found for 10.20.1.1",
        "file /srv/dnsmasq-dhcp[1]: DHCPACK(eth0) 10.20.1.2 52:54:00:aa:00:02 x not found for 10.20.1.1",
        "sent /srv/a to 10.20.1.2 to 10.20.1.1",
        "failed sending /srv/a to 10.20.1.2 to 10.20.1.1",
    ],
)
def test_a_file_name_cannot_write_another_nodes_history(words: str) -> None:
    seen = from_dnsmasq(line(words, "dnsmasq-tftp"), NOW)
    assert seen is not None
    assert OWNERS.of(seen) == "gpu01"


@pytest.mark.parametrize(
    "text", ["", "x", "{", "[]", "null", "Jan  2 11:59:58 dnsmasq[1]: started", "\0\0", "dnsmasq-dhcp[1]: DHCPACK("]
)
def test_what_is_not_understood_is_passed_over(text: str) -> None:
    assert from_dnsmasq(text, NOW) is None
    assert from_nginx(text, NOW) is None


def test_a_bmc_is_said_to_be_one() -> None:
    seen = from_management(line("DHCPACK(eth1) 10.21.0.11 52:54:00:aa:00:01 gpu01"), NOW)
    assert seen is not None
    assert (seen.kind, seen.message) == ("bmc.dhcp.ack", "its BMC got 10.21.0.11")


def access(**changes: object) -> str:
    said = {"time": 1767355200.25, "address": "10.20.1.1", "method": "GET", "path": "/boot",
            "status": 200, "bytes": 10, "seconds": 0.1, "agent": "iPXE"}  # fmt: skip
    return json.dumps({**said, **changes})


def test_http_lines() -> None:
    seen = from_nginx(access(), NOW)
    assert seen is not None
    assert (seen.kind, seen.message, seen.at) == ("http", "GET /boot: 200", NOW + timedelta(milliseconds=250))
    assert from_nginx(access(status="what"), NOW) is None
    assert from_nginx(access(time=[7]), NOW) is None
    older = from_nginx(access(time="2026-01-02T12:00:00+00:00"), NOW)
    assert older is not None
    assert older.at == NOW, "as nginx wrote it before an upgrade"


def test_words_from_the_wire_are_bounded_and_printable() -> None:
    seen = from_nginx(access(path="/\x1b[2J\u009b\u202e" + "x" * 9000, agent="\0\x07" * 9000), NOW)
    assert seen is not None
    for text in (seen.message, *(str(value) for value in seen.data.values())):
        assert text.isprintable()
        assert len(text) < 1700


def test_a_stamp_has_no_year() -> None:
    new_year = datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert record.moment("Dec 31 23:59:59", new_year).year == 2025
    assert record.moment("Feb 30 10:00:00", NOW) == NOW
    assert record.moment(None, NOW) == NOW


def observed(at: datetime, message: str = "asked") -> Observation:
    return Observation("dhcp.discover", message, at, "52:54:00:aa:00:01")


def test_the_same_thing_again_is_counted() -> None:
    limiter = Limiter()
    asked = [observed(NOW + timedelta(seconds=second / 2)) for second in range(20)]
    messages = [event.message for event in record.events(asked, OWNERS, limiter)]
    assert messages == ["asked", "asked (and 9 like it before)"]


def test_no_node_has_more_than_its_budget() -> None:
    limiter = Limiter(burst=10, rate=1)
    flood = [observed(NOW, f"asked {number}") for number in range(1000)]
    assert len(list(record.events(flood, OWNERS, limiter))) == 10
    later = [observed(NOW + timedelta(seconds=5), "again")]
    assert [event.message for event in record.events(later, OWNERS, limiter)] == ["again (and 990 like it before)"]


def test_a_clock_that_is_set_back_silences_nobody() -> None:
    limiter = Limiter()
    assert limiter.pass_on("gpu01", observed(NOW)) == 0
    assert limiter.pass_on("gpu01", observed(NOW - timedelta(hours=1))) == 0


def test_strangers_are_no_events() -> None:
    assert list(record.events([replace(observed(NOW), mac="52:54:00:00:00:99")], OWNERS, Limiter())) == []
