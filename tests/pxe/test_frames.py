"""Ethernet, IPv4 and UDP framing."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pxe import frames
from pxe.dhcp import InvalidPacket, mac_text
from pxe.frames import Datagram

macs = st.binary(min_size=6, max_size=6).map(mac_text)
addresses = st.ip_addresses(v=4).map(str)
ports = st.integers(0, 0xFFFF)
datagrams = st.builds(
    Datagram,
    payload=st.binary(max_size=1500),
    source_mac=macs,
    target_mac=macs,
    source=addresses,
    target=addresses,
    source_port=ports,
    target_port=ports,
)


@given(datagrams)
def test_what_is_encoded_is_decoded_again(datagram: Datagram) -> None:
    # Ethernet pads short frames; the padding is not payload.
    assert frames.decode(frames.encode(datagram) + b"\0" * 10) == datagram


@given(datagrams, st.data())
def test_damage_is_an_invalid_packet_or_a_datagram(datagram: Datagram, data: st.DataObject) -> None:
    frame = bytearray(frames.encode(datagram))
    for position in data.draw(st.lists(st.integers(0, len(frame) - 1), max_size=10)):
        frame[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidPacket):
        frames.decode(bytes(frame[: data.draw(st.integers(0, len(frame)))]))


def test_a_known_header_has_its_known_checksum() -> None:
    # RFC 1071's own example.
    assert frames.checksum(bytes.fromhex("0001f203f4f5f6f7")) == ~0xDDF2 & 0xFFFF


@given(datagrams)
def test_the_checksums_add_up(datagram: Datagram) -> None:
    frame = frames.encode(datagram)
    assert frames.checksum(frame[14:34]) == 0
    length = len(frame) - 34
    pseudo = frame[26:34] + bytes([0, 17]) + length.to_bytes(2, "big")
    assert frames.checksum(pseudo + frame[34:]) == 0
    assert frame[40:42] != b"\0\0"


@pytest.mark.parametrize(
    ("change", "said"),
    [((12, 0x86), "not IPv4"), ((23, 6), "whole UDP"), ((20, 0x20), "whole UDP"), ((24, 0), "checksum")],
)
def test_other_traffic_is_refused(change: tuple[int, int], said: str) -> None:
    frame = bytearray(frames.encode(Datagram(b"hello", "52:54:00:aa:00:01", 68, 67)))
    frame[change[0]] = change[1]
    with pytest.raises(InvalidPacket, match=said):
        frames.decode(bytes(frame))


def test_too_much_payload_is_refused() -> None:
    with pytest.raises(InvalidPacket, match="at most"):
        frames.encode(Datagram(bytes(65508), "52:54:00:aa:00:01", 68, 67))
    with pytest.raises(InvalidPacket, match="ports"):
        frames.encode(Datagram(b"", "52:54:00:aa:00:01", 68, 70000))
