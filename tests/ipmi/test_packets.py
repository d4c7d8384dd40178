"""Bytes to facts and back, and garbage to exactly one exception."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipmi import fru, requests, sdr, sel, sol
from ipmi.rmcp import handshake, packet
from ipmi.rmcp.crypto import SUITE_3, SUITE_17, SUITES, LoginSecrets, SessionKeys, Suite, user_key
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.packet import Payload, Request, Response
from ipmi.rmcp.session import Session

RECORDED = Path(__file__).parent / "recorded"
BYTES = st.binary(max_size=300)
SUITE = st.sampled_from(SUITES)


def keys(suite: Suite) -> SessionKeys:
    return SessionKeys(suite, b"k" * 20)


def test_no_suite_without_authentication_exists() -> None:
    assert {suite.number for suite in SUITES} == {3, 17}
    assert all(s.authentication and s.integrity and s.confidentiality for s in SUITES)


@given(SUITE, BYTES, st.integers(1, 2**32 - 1), st.integers(1, 2**32 - 1))
def test_what_is_sealed_opens_to_the_same(suite: Suite, payload: bytes, session: int, sequence: int) -> None:
    parsed = packet.parse(packet.sealed(keys(suite), Payload.IPMI, session, sequence, payload))
    assert (parsed.session_id, parsed.sequence, parsed.kind) == (session, sequence, Payload.IPMI)
    assert packet.opened(keys(suite), parsed) == payload
    assert (len(parsed.covered) - suite.code_length) % 4 == 0


@given(SUITE, BYTES, st.data())
def test_one_changed_bit_is_noticed(suite: Suite, payload: bytes, data: st.DataObject) -> None:
    datagram = bytearray(packet.sealed(keys(suite), Payload.IPMI, 5, 9, payload))
    place = data.draw(st.integers(5, len(datagram) - 1))
    datagram[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Malformed):
        packet.opened(keys(suite), packet.parse(bytes(datagram)))


def test_an_unsigned_packet_of_a_session_is_refused() -> None:
    bare = packet.RMCP_IPMI + packet.WRAPPER.pack(6, 0, 5, 1, 4) + b"data"
    with pytest.raises(Malformed, match="not signed"):
        packet.opened(keys(SUITE_3), packet.parse(bare))


@given(st.integers(0, 63), st.integers(0, 255), st.integers(0, 31), st.binary(max_size=100))
def test_messages_round_trip(number: int, command: int, half: int, data: bytes) -> None:
    request = Request(half * 2, command, data)
    assert packet.parse_request(packet.request_message(request, number)) == (request, number)
    response = Response(half * 2 + 1, number, command, 0xC1, data)
    assert packet.parse_response(packet.response_message(response)) == response


@pytest.mark.parametrize(
    "reader",
    [
        packet.parse,
        packet.parse_response,
        packet.parse_request,
        handshake.parse_open_session_response,
        handshake.parse_rakp_2,
        handshake.parse_rakp_4,
        sol.parse,
        sdr.parse,
        fru.parse,
        requests.chassis_status,
        requests.boot_flags,
        requests.device_id,
        requests.user_access,
        requests.sol_size,
        lambda data: packet.opened(keys(SUITE_17), packet.parse(data)),
        lambda data: Session(keys(SUITE_3), 1, 2).open(packet.parse(data)),
        lambda data: sel.parse(data, {}),
        lambda data: sdr.reading(sdr.SensorRecord(1, 0, "t", 1, 1, format=0), data),
        keys(SUITE_3).decrypt,
    ],
)
def test_garbage_gives_one_kind_of_exception(reader: object) -> None:
    assert callable(reader)

    @given(st.one_of(BYTES, BYTES.map(lambda tail: packet.RMCP_IPMI + b"\x06" + tail)))
    def attempt(data: bytes) -> None:
        try:
            reader(data)
        except Malformed:
            return

    attempt()


def test_a_recorded_conversation_of_other_peoples_programs_verifies() -> None:
    """ipmitool and ipmi_sim agreed on these bytes; so must we, down to the encrypted answer."""
    story = json.loads((RECORDED / "ipmitool-suite-3.json").read_text())
    packets = [
        packet.parse(bytes.fromhex(datagram["hex"])) for datagram in story["datagrams"] if datagram["hex"][8:10] == "06"
    ]
    by_kind = {parsed.kind: parsed.payload for parsed in packets if parsed.kind >= Payload.OPEN_SESSION_REQUEST}
    opened = handshake.parse_open_session_response(by_kind[Payload.OPEN_SESSION_RESPONSE])
    first, second = by_kind[Payload.RAKP_1], handshake.parse_rakp_2(by_kind[Payload.RAKP_2])
    assert opened.suite == SUITE_3
    secrets = LoginSecrets(
        suite=SUITE_3,
        user_key=user_key(story["password"]),
        bmc_key=b"",
        user=story["user"].encode(),
        role=first[24],
        console_id=opened.console_id,
        bmc_id=opened.bmc_id,
        console_random=first[8:24],
        bmc_random=second.bmc_random,
        bmc_guid=second.bmc_guid,
    )
    assert first == handshake.rakp_1(first[0], opened.bmc_id, first[8:24], first[24], b"admin")
    assert second.proof == secrets.bmc_proof()
    third = by_kind[Payload.RAKP_3]
    assert third == handshake.rakp_3(third[0], opened.bmc_id, secrets.console_proof())
    assert handshake.parse_rakp_4(by_kind[Payload.RAKP_4]).proof == secrets.session_proof()
    session = SessionKeys(SUITE_3, secrets.session_key)
    plain = [packet.opened(session, parsed) for parsed in packets if parsed.kind == Payload.IPMI]
    asked = [packet.parse_request(message)[0] for message in plain[::2]]
    said = [packet.parse_response(message) for message in plain[1::2]]
    assert asked[0] == Request(0x06, 0x3B, b"\x04")
    assert requests.GET_CHASSIS_STATUS in asked
    assert all(answer.code == 0 for answer in said if answer.command == requests.GET_CHASSIS_STATUS.command)


def test_login_messages_have_the_layout_of_the_specification() -> None:
    asked = handshake.open_session_request(7, b"\x01\x02\x03\x04", SUITE_17)
    assert asked.hex() == "0700000001020304" + "0000000803000000" + "0100000804000000" + "0200000801000000"
    first = handshake.rakp_1(7, b"\xaa\xbb\xcc\xdd", bytes(16), 0x14, b"admin")
    assert first.hex() == "07000000aabbccdd" + "00" * 16 + "14000005" + b"admin".hex()
    assert handshake.rakp_3(7, b"\xaa\xbb\xcc\xdd", b"p").hex() == "07000000aabbccdd70"


def test_a_suite_we_did_not_ask_for_is_not_recognised() -> None:
    none = bytes(4) + b"abcd" + b"efgh" + bytes.fromhex("0000000800000000010000080000000002000008 00000000")
    assert handshake.parse_open_session_response(none).suite is None


class TestFreshness:
    def session(self) -> Session:
        return Session(keys(SUITE_3), 1, 2)

    def test_a_repeated_number_is_a_replay(self) -> None:
        session = self.session()
        session.check_fresh(1)
        with pytest.raises(Malformed, match="replay"):
            session.check_fresh(1)

    def test_packets_may_overtake_each_other(self) -> None:
        session = self.session()
        for number in (5, 3, 4, 9, 1):
            session.check_fresh(number)
        with pytest.raises(Malformed):
            session.check_fresh(4)

    def test_what_is_far_behind_is_refused(self) -> None:
        session = self.session()
        session.check_fresh(1000)
        with pytest.raises(Malformed):
            session.check_fresh(1000 - 32)
        session.check_fresh(1000 - 31)

    @given(st.lists(st.integers(1, 60), max_size=60))
    def test_no_number_is_ever_taken_twice(self, numbers: list[int]) -> None:
        session, taken = self.session(), []
        for number in numbers:
            try:
                session.check_fresh(number)
            except Malformed:
                continue
            taken.append(number)
        assert len(taken) == len(set(taken))


def test_every_sending_has_its_own_number() -> None:
    session = Session(keys(SUITE_3), 0xAABBCCDD, 2)
    sent = [struct.unpack_from("<II", session.seal(0, b"x"), 6) for _ in range(3)]
    assert sent == [(0xAABBCCDD, 1), (0xAABBCCDD, 2), (0xAABBCCDD, 3)]
