"""Serial over LAN packets. Pure.

Each packet that carries something has a number from 1 to 15 and is repeated until acknowledged; number 0 only
acknowledges. A repeated packet may have grown: the acknowledgement tells how many characters were taken.
"""

from dataclasses import dataclass
from typing import Final

from ipmi.rmcp.errors import Malformed

NACK: Final = 0x40
DEACTIVATED: Final = 0x10


@dataclass(frozen=True, slots=True)
class SolPacket:
    number: int
    acknowledged: int = 0
    accepted: int = 0
    status: int = 0
    data: bytes = b""

    @property
    def refused(self) -> bool:
        return bool(self.status & NACK)


def build(packet: SolPacket) -> bytes:
    return bytes((packet.number, packet.acknowledged, packet.accepted, packet.status)) + packet.data


def parse(payload: bytes) -> SolPacket:
    if len(payload) < 4:
        raise Malformed("a serial-over-LAN packet is too short")
    return SolPacket(payload[0] & 0x0F, payload[1] & 0x0F, payload[2], payload[3], payload[4:])


class Inbound:
    """The receiving side: what is new in a packet, and what to acknowledge."""

    def __init__(self) -> None:
        self.number = 0
        self.accepted = 0

    def take(self, packet: SolPacket) -> tuple[bytes, SolPacket | None]:
        if packet.number == 0:
            return b"", None
        new = b""
        if packet.number != self.number:
            self.number, self.accepted, new = packet.number, len(packet.data), packet.data
        # A repetition is acknowledged as before: what was added meanwhile comes again under a new number.
        return new, SolPacket(0, self.number, self.accepted & 0xFF)


def next_number(number: int) -> int:
    return number % 15 + 1
