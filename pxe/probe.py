"""Is there a foreign DHCP server on this wire? Ask like a new machine would, and see who answers."""

import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass

from headnode.errors import shown
from pxe.dhcp import NOWHERE, Architecture, MessageType, Op, Option, Packet, mac_text
from pxe.frames import Datagram
from pxe.wire import Wire

# One lost frame must not hide a server, and some servers think for a second before they offer.
ASK_EVERY = 1.0
WANTED = bytes([Option.SUBNET_MASK, Option.ROUTER, Option.SERVER_ID, Option.TFTP_SERVER, Option.BOOT_FILE])


@dataclass(frozen=True, order=True)
class Offer:
    """One server's answer, with everything that helps to find the box it came from."""

    server_id: str
    source_ip: str
    source_mac: str
    address: str
    boot_file: str = ""
    next_server: str = ""

    def __str__(self) -> str:
        boots = f" and tells machines to boot {shown(self.boot_file)}" if self.boot_file else ""
        return f"the DHCP server {self.server_id} ({self.source_mac}) offers {self.address}{boots}"


def probe(interface: str, seconds: float, ours: Collection[str] = ()) -> list[Offer]:
    """Ask for an address on the interface and return every offer that is not ours.

    `ours` are our own addresses and hardware addresses. When it has a hardware address, that decides:
    a copy of this head node with the same IP address is exactly what must not go unnoticed.
    """
    mac = random_mac()
    questions = discovers(mac)
    known = {question.xid for question in questions}
    found: set[Offer] = set()
    with Wire(interface) as wire:
        deadline = time.monotonic() + seconds
        while (now := time.monotonic()) < deadline:
            for question in questions:
                wire.send(question)
            round_ends = min(now + ASK_EVERY, deadline)
            while heard := wire.receive(round_ends):
                packet, datagram = heard
                if packet.xid in known and packet.mac == mac and is_offer(packet):
                    found.add(offer_from(packet, datagram))
    return sorted(offer for offer in found if not is_ours(offer, ours))


def discovers(mac: str) -> list[Packet]:
    """As a plain client and as PXE firmware: many servers answer only one of the two."""
    plain: dict[int, bytes] = {
        Option.MESSAGE_TYPE: bytes([MessageType.DISCOVER]),
        Option.PARAMETER_LIST: WANTED,
    }
    firmware = Architecture.UEFI_X64
    booting: dict[int, bytes] = {
        **plain,
        Option.VENDOR_CLASS: firmware.vendor_class.encode(),
        Option.ARCHITECTURE: firmware.to_bytes(2, "big"),
        Option.NETWORK_INTERFACE: bytes([1, 3, 16]),
        Option.MACHINE_ID: b"\0" + secrets.token_bytes(16),
    }
    return [Packet(Op.REQUEST, secrets.randbits(32), mac, options, broadcast=True) for options in (plain, booting)]


def is_offer(packet: Packet) -> bool:
    """An offer, a BOOTP answer without a type, or a rapid-commit server's ACK: all hand out addresses."""
    return packet.message_type in (MessageType.OFFER, MessageType.ACK, None)


def offer_from(packet: Packet, datagram: Datagram) -> Offer:
    return Offer(
        server_id=packet.server_id or datagram.source,
        source_ip=datagram.source,
        source_mac=datagram.source_mac,
        address=packet.your_address,
        boot_file=packet.boot_file,
        next_server="" if packet.next_server == NOWHERE else packet.next_server,
    )


def is_ours(offer: Offer, ours: Collection[str]) -> bool:
    own = {word.lower() for word in ours}
    if any(":" in word for word in own):
        return offer.source_mac in own
    return offer.server_id in own


def random_mac() -> str:
    """Locally administered and unicast, so that it can collide with no vendor's."""
    value = bytearray(secrets.token_bytes(6))
    value[0] = (value[0] & 0xFC) | 0x02
    return mac_text(bytes(value))
