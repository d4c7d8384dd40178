"""Datagrams as bytes: the RMCP+ session wrapper and the IPMI message inside. Pure, and strict on reading."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ipmi.rmcp.crypto import SessionKeys
from ipmi.rmcp.errors import Malformed

RMCP_IPMI: Final = b"\x06\x00\xff\x07"
RMCP_ASF: Final = b"\x06\x00\xff\x06"
FORMAT_RMCP_PLUS: Final = 0x06
ENCRYPTED: Final = 0x80
AUTHENTICATED: Final = 0x40
WRAPPER: Final = struct.Struct("<BBIIH")
NEXT_HEADER: Final = 0x07
BMC_ADDRESS: Final = 0x20
CONSOLE_ADDRESS: Final = 0x81
LARGEST: Final = 1024


class Payload(IntEnum):
    IPMI = 0x00
    SOL = 0x01
    OPEN_SESSION_REQUEST = 0x10
    OPEN_SESSION_RESPONSE = 0x11
    RAKP_1 = 0x12
    RAKP_2 = 0x13
    RAKP_3 = 0x14
    RAKP_4 = 0x15


@dataclass(frozen=True, slots=True)
class Packet:
    """A datagram taken apart but not yet believed: `covered` is what its integrity code must sign."""

    kind: int
    encrypted: bool
    authenticated: bool
    session_id: int
    sequence: int
    payload: bytes
    covered: bytes = b""
    trailer: bytes = b""


@dataclass(frozen=True, slots=True)
class Request:
    netfn: int
    command: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    netfn: int
    sequence: int
    command: int
    code: int
    data: bytes


def parse(datagram: bytes) -> Packet:
    if len(datagram) < 4 + WRAPPER.size or len(datagram) > LARGEST or datagram[0] != 6 or datagram[3] != 7:
        raise Malformed("not an RMCP+ datagram")
    format_, flags, session_id, sequence, length = WRAPPER.unpack_from(datagram, 4)
    if format_ != FORMAT_RMCP_PLUS or flags & 0x3F == 0x02:
        raise Malformed("an IPMI 1.5 or OEM datagram")
    start = 4 + WRAPPER.size
    payload = datagram[start : start + length]
    if len(payload) != length:
        raise Malformed("a datagram is shorter than it says")
    return Packet(
        kind=flags & 0x3F,
        encrypted=bool(flags & ENCRYPTED),
        authenticated=bool(flags & AUTHENTICATED),
        session_id=session_id,
        sequence=sequence,
        payload=payload,
        covered=datagram[4:],
        trailer=datagram[start + length :],
    )


def plain(kind: int, payload: bytes) -> bytes:
    """A datagram outside any session: the login."""
    return RMCP_IPMI + WRAPPER.pack(FORMAT_RMCP_PLUS, kind, 0, 0, len(payload)) + payload


def sealed(keys: SessionKeys, kind: int, session_id: int, sequence: int, payload: bytes) -> bytes:
    """A datagram of a session: encrypted, then signed."""
    secret = keys.encrypt(payload)
    flags = kind | ENCRYPTED | AUTHENTICATED
    body = WRAPPER.pack(FORMAT_RMCP_PLUS, flags, session_id, sequence, len(secret)) + secret
    pad = -(len(body) + 2) % 4
    body += b"\xff" * pad + bytes((pad, NEXT_HEADER))
    return RMCP_IPMI + body + keys.sign(body)


def opened(keys: SessionKeys, packet: Packet) -> bytes:
    """The payload of a session's datagram; anything unsigned, unencrypted or altered is Malformed."""
    if not (packet.authenticated and packet.encrypted):
        raise Malformed("a datagram of a session is not signed and encrypted")
    length = keys.suite.code_length
    if len(packet.trailer) < length + 2:
        raise Malformed("a signed datagram has no signature")
    if not keys.signed(packet.covered[:-length], packet.trailer[-length:]):
        raise Malformed("a datagram has a wrong signature")
    return keys.decrypt(packet.payload)


def checksum(data: bytes) -> int:
    return -sum(data) & 0xFF


def request_message(request: Request, sequence: int) -> bytes:
    head = bytes((BMC_ADDRESS, request.netfn << 2))
    body = bytes((CONSOLE_ADDRESS, sequence << 2, request.command)) + request.data
    return head + bytes((checksum(head),)) + body + bytes((checksum(body),))


def parse_response(message: bytes) -> Response:
    if len(message) < 8:
        raise Malformed("an IPMI response is too short")
    if sum(message[:3]) & 0xFF or sum(message[3:]) & 0xFF:
        raise Malformed("an IPMI response has a wrong checksum")
    return Response(
        netfn=message[1] >> 2,
        sequence=message[4] >> 2,
        command=message[5],
        code=message[6],
        data=message[7:-1],
    )


def parse_request(message: bytes) -> tuple[Request, int]:
    """The BMC's side of it: for simulated BMCs in tests."""
    if len(message) < 7 or sum(message[:3]) & 0xFF or sum(message[3:]) & 0xFF:
        raise Malformed("not an IPMI request")
    return Request(message[1] >> 2, message[5], message[6:-1]), message[4] >> 2


def response_message(response: Response) -> bytes:
    head = bytes((CONSOLE_ADDRESS, response.netfn << 2))
    body = bytes((BMC_ADDRESS, response.sequence << 2, response.command, response.code)) + response.data
    return head + bytes((checksum(head),)) + body + bytes((checksum(body),))


def presence_ping(tag: int) -> bytes:
    """ASF's "is an RMCP device there?": needs no session and no password."""
    return RMCP_ASF + b"\x00\x00\x11\xbe\x80" + bytes((tag, 0, 0))


def presence_pong(datagram: bytes) -> bool:
    """Whether this is the answer of a device that speaks IPMI."""
    return len(datagram) >= 21 and datagram[3] == 6 and datagram[8] == 0x40 and bool(datagram[20] & 0x80)
