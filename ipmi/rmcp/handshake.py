"""The four steps of an RMCP+ login as messages: Open Session and RAKP 1 to 4. Pure."""

import struct
from dataclasses import dataclass
from typing import Final

from ipmi.rmcp.crypto import SUITES, Suite
from ipmi.rmcp.errors import Malformed

NAME_ONLY_LOOKUP: Final = 0x10
ADMINISTRATOR: Final = 4
OPERATOR: Final = 3

# Status codes of RMCP+ and RAKP that mean something to us; the rest is shown as a number.
NO_RESOURCES: Final = 0x01
INVALID_SESSION: Final = 0x02
INVALID_ROLE: Final = 0x09
UNAUTHORIZED_ROLE: Final = 0x0A
NO_RESOURCES_AT_ROLE: Final = 0x0B
INVALID_NAME_LENGTH: Final = 0x0C
UNAUTHORIZED_NAME: Final = 0x0D
INVALID_INTEGRITY_VALUE: Final = 0x0F
NO_CIPHER_SUITE: Final = 0x11
# A BMC that lacks an algorithm may name which one instead of rejecting the suite as a whole.
SUITE_REJECTED: Final = frozenset({0x04, 0x05, 0x06, 0x10, NO_CIPHER_SUITE})


@dataclass(frozen=True, slots=True)
class OpenSessionResponse:
    tag: int
    status: int
    console_id: bytes
    bmc_id: bytes = b""
    suite: Suite | None = None


@dataclass(frozen=True, slots=True)
class Rakp2:
    tag: int
    status: int
    console_id: bytes
    bmc_random: bytes = b""
    bmc_guid: bytes = b""
    proof: bytes = b""


@dataclass(frozen=True, slots=True)
class Rakp4:
    tag: int
    status: int
    console_id: bytes
    proof: bytes = b""


def open_session_request(tag: int, console_id: bytes, suite: Suite) -> bytes:
    # Privilege 0 asks for the highest the user has; RAKP 1 then names the role.
    return bytes((tag, 0, 0, 0)) + console_id + algorithms(suite)


def algorithms(suite: Suite) -> bytes:
    numbers = (suite.authentication, suite.integrity, suite.confidentiality)
    return b"".join(struct.pack("<BxxBBxxx", kind, 8, number) for kind, number in enumerate(numbers))


def parse_open_session_response(payload: bytes) -> OpenSessionResponse:
    tag, status, console_id = start(payload)
    if status:
        return OpenSessionResponse(tag, status, console_id)
    if len(payload) < 36:
        raise Malformed("an Open Session response is too short")
    chosen = (payload[16], payload[24], payload[32])
    suite = next(
        (s for s in SUITES if (s.authentication, s.integrity, s.confidentiality) == tuple(n & 0x3F for n in chosen)),
        None,
    )
    return OpenSessionResponse(tag, status, console_id, payload[8:12], suite)


def rakp_1(tag: int, bmc_id: bytes, console_random: bytes, role: int, user: bytes) -> bytes:
    return bytes((tag, 0, 0, 0)) + bmc_id + console_random + bytes((role, 0, 0, len(user))) + user


def parse_rakp_2(payload: bytes) -> Rakp2:
    tag, status, console_id = start(payload)
    if status:
        return Rakp2(tag, status, console_id)
    if len(payload) < 40:
        raise Malformed("a RAKP 2 message is too short")
    return Rakp2(tag, status, console_id, payload[8:24], payload[24:40], payload[40:])


def rakp_3(tag: int, bmc_id: bytes, proof: bytes, status: int = 0) -> bytes:
    return bytes((tag, status, 0, 0)) + bmc_id + proof


def parse_rakp_4(payload: bytes) -> Rakp4:
    tag, status, console_id = start(payload)
    return Rakp4(tag, status, console_id, payload[8:])


def start(payload: bytes) -> tuple[int, int, bytes]:
    """Every answer of a login begins with tag, status and our session id; errors may end after the status."""
    if len(payload) < 2 or (payload[1] == 0 and len(payload) < 8):
        raise Malformed("a login message is too short")
    return payload[0], payload[1], payload[4:8]
