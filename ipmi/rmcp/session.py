"""An open session: numbers its packets, seals them, and believes only signed, fresh ones. Pure."""

from typing import Final

from ipmi.rmcp.crypto import SessionKeys
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.packet import Packet, Payload, Request, opened, request_message, sealed

# How far behind the newest a packet may arrive, as the specification's sliding window says.
WINDOW: Final = 32


class Session:
    def __init__(self, keys: SessionKeys, bmc_id: int, console_id: int) -> None:
        self.keys = keys
        self.bmc_id = bmc_id
        self.console_id = console_id
        self.outgoing = 0
        self.newest = 0
        # Bit n is set when packet (newest - n) was seen.
        self.seen = 0
        self.message = 0

    def seal(self, kind: int, payload: bytes) -> bytes:
        """Every sending gets a number of its own, also a repeated one: the BMC drops numbers it has seen."""
        self.outgoing = self.outgoing % 0xFFFFFFFF + 1
        return sealed(self.keys, kind, self.bmc_id, self.outgoing, payload)

    def open(self, packet: Packet) -> bytes:
        if packet.session_id != self.console_id:
            raise Malformed("a datagram belongs to another session")
        payload = opened(self.keys, packet)
        self.check_fresh(packet.sequence)
        return payload

    def check_fresh(self, sequence: int) -> None:
        """Only after the signature was checked, or anybody could move the window."""
        ahead = sequence - self.newest
        if ahead > 0:
            self.seen = (self.seen << min(ahead, WINDOW) | 1) & (1 << WINDOW) - 1
            self.newest = sequence
        elif -ahead >= WINDOW or self.seen >> -ahead & 1:
            raise Malformed("a datagram is a replay")
        else:
            self.seen |= 1 << -ahead

    def closing(self) -> bytes:
        """The datagram that ends this session, for when nobody waits for the answer."""
        return self.seal(Payload.IPMI, request_message(self.close_request(), self.next_message()))

    def close_request(self) -> Request:
        return Request(0x06, 0x3C, self.bmc_id.to_bytes(4, "little"))

    def next_message(self) -> int:
        """The 6-bit number that pairs an answer with its question."""
        self.message = (self.message + 1) % 64
        return self.message
