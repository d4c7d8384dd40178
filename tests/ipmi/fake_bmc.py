"""A BMC in a few lines, with faults to order. ipmitool judges its honesty in tests/integration/test_ipmi_peers.py."""

import asyncio
import hmac
import os
import random
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from ipmi.rmcp import handshake, packet
from ipmi.rmcp.crypto import SUITE_3, SUITE_17, LoginSecrets, SessionKeys, Suite, user_key
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.packet import Payload, Request, Response

Address = tuple[str, int]


@dataclass
class Faults:
    """What is wrong with this BMC."""

    drop: float = 0.0
    delay: float = 0.0
    silent: bool = False
    most_sessions: int = 100
    stuck: bool = False
    highest_role: int = 4
    refuse_role_in_login: bool = True
    garbage: bool = False
    wrong_session_proof: bool = False


@dataclass
class Half:
    """A session: opening first, open once RAKP 3 was right."""

    suite: Suite
    console_id: bytes
    bmc_id: bytes
    secrets: LoginSecrets | None = None
    keys: SessionKeys | None = None
    sequence: int = 0


@dataclass
class FakeBmc(asyncio.DatagramProtocol):
    user: str = "admin"
    password: str = "secret"
    bmc_key: bytes = b""
    suites: tuple[Suite, ...] = (SUITE_3, SUITE_17)
    faults: Faults = field(default_factory=Faults)
    on: bool = False
    sessions: dict[bytes, Half] = field(default_factory=dict)
    commands: list[Request] = field(default_factory=list)
    answers: dict[tuple[int, int], Callable[[bytes], tuple[int, bytes]]] = field(default_factory=dict)
    received: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        return

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.received += 1
        if self.faults.silent or self.chance.random() < self.faults.drop:
            return
        if self.faults.garbage:
            self.transport.sendto(b"\x06\x00\xff\x07" + os.urandom(60), addr)
        try:
            answer = self.answer(data)
        except Malformed:
            return
        if answer is None or self.chance.random() < self.faults.drop:
            return
        if self.faults.delay:
            asyncio.get_running_loop().call_later(self.faults.delay, self.transport.sendto, answer, addr)
        else:
            self.transport.sendto(answer, addr)

    def answer(self, data: bytes) -> bytes | None:
        if data[3] == 6:
            return packet.RMCP_ASF + b"\x00\x00\x11\xbe\x40" + data[9:10] + b"\x00\x10" + bytes(8) + b"\x81" + bytes(7)
        if data[4:5] != b"\x06":
            return self.capabilities(data)
        parsed = packet.parse(data)
        match parsed.kind:
            case Payload.OPEN_SESSION_REQUEST:
                return packet.plain(Payload.OPEN_SESSION_RESPONSE, self.open(parsed.payload))
            case Payload.RAKP_1:
                return packet.plain(Payload.RAKP_2, self.rakp_2(parsed.payload))
            case Payload.RAKP_3:
                said = self.rakp_4(parsed.payload)
                return packet.plain(Payload.RAKP_4, said) if said else None
            case Payload.IPMI:
                return self.command(parsed)
        return None

    def capabilities(self, data: bytes) -> bytes:
        """Get Channel Authentication Capabilities in IPMI 1.5 clothes: ipmitool asks it first."""
        request, number = packet.parse_request(data[14:])
        said = packet.response_message(
            Response(request.netfn | 1, number, request.command, 0, b"\x01\x80\x14\x02" + bytes(4))
        )
        return packet.RMCP_IPMI + bytes(9) + bytes((len(said),)) + said

    def open(self, payload: bytes) -> bytes:
        console_id, tag = payload[4:8], payload[0]
        chosen = (payload[12], payload[20], payload[28])
        suite = next((s for s in self.suites if (s.authentication, s.integrity, s.confidentiality) == chosen), None)
        if suite is None:
            return bytes((tag, handshake.NO_CIPHER_SUITE, 0, 0)) + console_id
        if len(self.sessions) >= self.faults.most_sessions:
            return bytes((tag, handshake.NO_RESOURCES, 0, 0)) + console_id
        half = Half(suite, console_id, struct.pack("<I", self.chance.randrange(1, 2**32)))
        self.sessions[half.bmc_id] = half
        return bytes((tag, 0, 4, 0)) + console_id + half.bmc_id + handshake.algorithms(suite)

    def rakp_2(self, payload: bytes) -> bytes:
        tag, half = payload[0], self.sessions.get(payload[4:8])
        if half is None:
            return bytes((tag, handshake.INVALID_SESSION, 0, 0)) + bytes(4)
        user = payload[28 : 28 + payload[27]]
        role = payload[24]
        if user != self.user.encode():
            del self.sessions[half.bmc_id]
            return bytes((tag, handshake.UNAUTHORIZED_NAME, 0, 0)) + half.console_id
        if self.faults.refuse_role_in_login and role & 0x0F > self.faults.highest_role:
            del self.sessions[half.bmc_id]
            return bytes((tag, handshake.UNAUTHORIZED_ROLE, 0, 0)) + half.console_id
        half.secrets = LoginSecrets(
            suite=half.suite,
            user_key=user_key(self.password),
            bmc_key=self.bmc_key,
            user=user,
            role=role,
            console_id=half.console_id,
            bmc_id=half.bmc_id,
            console_random=payload[8:24],
            bmc_random=os.urandom(16),
            bmc_guid=b"headnode-test-id",
        )
        proof = half.secrets.bmc_proof()
        return bytes((tag, 0, 0, 0)) + half.console_id + half.secrets.bmc_random + half.secrets.bmc_guid + proof

    def rakp_4(self, payload: bytes) -> bytes | None:
        tag, half = payload[0], self.sessions.get(payload[4:8])
        if half is None or half.keys is not None:
            return bytes((tag, handshake.INVALID_SESSION, 0, 0)) + bytes(4)
        if payload[1] or half.secrets is None:
            del self.sessions[half.bmc_id]
            return None
        if not hmac.compare_digest(half.secrets.console_proof(), payload[8:]):
            del self.sessions[half.bmc_id]
            return bytes((tag, handshake.INVALID_INTEGRITY_VALUE, 0, 0)) + half.console_id
        half.keys = SessionKeys(half.suite, half.secrets.session_key)
        proof = bytes(half.suite.code_length) if self.faults.wrong_session_proof else half.secrets.session_proof()
        return bytes((tag, 0, 0, 0)) + half.console_id + proof

    def command(self, parsed: packet.Packet) -> bytes | None:
        half = self.sessions.get(struct.pack("<I", parsed.session_id))
        if half is None or half.keys is None:
            return None
        request, number = packet.parse_request(packet.opened(half.keys, parsed))
        self.commands.append(request)
        code, data = self.execute(half, request)
        half.sequence += 1
        said = packet.response_message(Response(request.netfn | 1, number, request.command, code, data))
        return packet.sealed(half.keys, Payload.IPMI, struct.unpack("<I", half.console_id)[0], half.sequence, said)

    def execute(self, half: Half, request: Request) -> tuple[int, bytes]:
        special = self.answers.get((request.netfn, request.command))
        if special is not None:
            return special(request.data)
        match (request.netfn, request.command):
            case (0x06, 0x01):
                return 0, bytes.fromhex("20 01 02 08 02 9f 91 12 00 02 0f")
            case (0x06, 0x3B):
                if request.data[0] > self.faults.highest_role:
                    return 0x80, b""
                return 0, request.data
            case (0x06, 0x3C):
                self.sessions.pop(request.data[:4], None)
                return 0, b""
            case (0x00, 0x01):
                return 0, bytes((0x60 | self.on, 0, 0))
            case (0x00, 0x02):
                self.on = self.on if self.faults.stuck else request.data[0] in (1, 2, 3)
                return 0, b""
        return 0xC1, b""


@asynccontextmanager
async def serving(bmc: FakeBmc, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Serves on a port of the loopback address; gives the port."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: bmc, local_addr=(host, port))
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        transport.close()
        await asyncio.sleep(0)
