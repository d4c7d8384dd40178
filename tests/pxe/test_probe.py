"""The pure parts of the foreign-DHCP preflight; tests/integration/test_probe.py runs it on a wire."""

import pytest

from pxe.dhcp import Architecture, MessageType, Op, Option, Packet
from pxe.frames import Datagram
from pxe.probe import Offer, discovers, is_offer, is_ours, offer_from, random_mac

OFFER = Offer("10.0.0.1", "10.0.0.1", "52:54:00:00:00:01", "10.0.0.50")


def test_a_random_mac_is_unicast_and_locally_administered() -> None:
    for _ in range(200):
        assert int(random_mac()[:2], 16) & 0b11 == 0b10


def test_it_asks_as_a_plain_client_and_as_firmware() -> None:
    plain, booting = discovers("02:00:00:00:00:01")
    assert plain.message_type is booting.message_type is MessageType.DISCOVER
    assert plain.broadcast
    assert booting.broadcast
    assert plain.xid != booting.xid
    assert plain.vendor_class == ""
    assert booting.architecture is Architecture.UEFI_X64


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ((), False),
        (("10.0.0.1",), True),
        (("10.0.0.2",), False),
        (("52:54:00:00:00:01",), True),
        (("52:54:00:00:00:01".upper(),), True),
        # A clone of the head node: same address, other hardware.
        (("10.0.0.1", "52:54:00:00:00:99"), False),
    ],
)
def test_whose_offer_it_is(ours: tuple[str, ...], expected: bool) -> None:
    assert is_ours(OFFER, ours) is expected


def test_an_offer_names_the_server_even_without_a_server_id() -> None:
    packet = Packet(Op.REPLY, 1, "02:00:00:00:00:01", {}, your_address="10.9.9.9", file="pxelinux.0")
    heard = Datagram(b"", "52:54:00:00:00:02", 67, 68, source="10.9.9.1")
    assert is_offer(packet)
    assert offer_from(packet, heard) == Offer(
        "10.9.9.1", "10.9.9.1", "52:54:00:00:00:02", "10.9.9.9", boot_file="pxelinux.0"
    )


def test_an_offer_reads_as_a_sentence_that_is_safe_to_print() -> None:
    offer = Offer("10.0.0.1", "10.0.0.1", "52:54:00:00:00:01", "10.0.0.50", boot_file="evil\x1b[2J")
    assert str(OFFER) == "the DHCP server 10.0.0.1 (52:54:00:00:00:01) offers 10.0.0.50"
    assert str(offer).endswith(r"and tells machines to boot 'evil\x1b[2J'")


def test_a_nak_is_not_an_offer() -> None:
    assert not is_offer(Packet(Op.REPLY, 1, "02:00:00:00:00:01", {Option.MESSAGE_TYPE: bytes([MessageType.NAK])}))
