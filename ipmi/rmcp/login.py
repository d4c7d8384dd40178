"""The login as a conversation: each step asks, checks what came back, and names what is wrong."""

import hmac
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ipmi.faults import BadAnswer, BmcFault, NoFreeSession, WrongCredentials
from ipmi.readings import Credentials
from ipmi.rmcp import handshake
from ipmi.rmcp.crypto import LoginSecrets, SessionKeys, Suite, user_key
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.exchange import Lost
from ipmi.rmcp.packet import Payload, plain
from ipmi.rmcp.session import Session

Answer = TypeVar("Answer", handshake.OpenSessionResponse, handshake.Rakp2, handshake.Rakp4)


class Wire(Protocol):
    """What a login needs of the world: to send, and to ask until a payload of that kind is accepted."""

    def send(self, datagram: bytes) -> None: ...

    async def login_step(self, datagram: bytes, kind: int, accept: Callable[[bytes], Answer | None]) -> Answer: ...


class SuiteRejected(Exception):
    """The BMC does not speak this cipher suite; another may do."""


class RoleRejected(Exception):
    """The user may log in, but not with this privilege."""


@dataclass(frozen=True)
class Login:
    """One attempt with fresh random numbers; a lost step restarts the whole, as BMCs repeat differently."""

    address: str
    credentials: Credentials
    suite: Suite
    role: int
    console_id: int
    tag: int

    @property
    def console_bytes(self) -> bytes:
        return struct.pack("<I", self.console_id)

    @property
    def user(self) -> bytes:
        return self.credentials.user.encode()[:16]

    async def run(self, wire: Wire) -> Session:
        opened = await self.open(wire)
        try:
            secrets = await self.prove_bmc(wire, opened)
        except Lost:
            self.abandon(wire, opened.bmc_id)
            raise
        keys = SessionKeys(self.suite, secrets.session_key)
        session = Session(keys, struct.unpack("<I", opened.bmc_id)[0], self.console_id)
        try:
            await self.prove_both(wire, secrets)
        except Lost:
            # Perhaps only the last answer was lost and the session is open over there: close it unseen.
            wire.send(session.closing())
            raise
        return session

    async def open(self, wire: Wire) -> handshake.OpenSessionResponse:
        payload = handshake.open_session_request(self.tag, self.console_bytes, self.suite)
        answer = await wire.login_step(
            plain(Payload.OPEN_SESSION_REQUEST, payload),
            Payload.OPEN_SESSION_RESPONSE,
            self.mine(handshake.parse_open_session_response),
        )
        if answer.status in handshake.SUITE_REJECTED:
            raise SuiteRejected
        self.check(answer.status)
        if answer.suite != self.suite:
            # A forged or broken answer must not talk us down to something weaker than we asked for.
            raise BadAnswer(f"BMC {self.address} chose a cipher suite that was not offered")
        return answer

    async def prove_bmc(self, wire: Wire, opened: handshake.OpenSessionResponse) -> LoginSecrets:
        ours = os.urandom(16)
        role = self.role | handshake.NAME_ONLY_LOOKUP
        payload = handshake.rakp_1(self.tag, opened.bmc_id, ours, role, self.user)
        answer = await wire.login_step(
            plain(Payload.RAKP_1, payload), Payload.RAKP_2, self.mine(handshake.parse_rakp_2)
        )
        if answer.status in (handshake.INVALID_ROLE, handshake.UNAUTHORIZED_ROLE):
            raise RoleRejected
        self.check(answer.status)
        secrets = LoginSecrets(
            suite=self.suite,
            user_key=user_key(self.credentials.password),
            bmc_key=self.credentials.bmc_key,
            user=self.user,
            role=role,
            console_id=self.console_bytes,
            bmc_id=opened.bmc_id,
            console_random=ours,
            bmc_random=answer.bmc_random,
            bmc_guid=answer.bmc_guid,
        )
        if not hmac.compare_digest(secrets.bmc_proof(), answer.proof):
            self.abandon(wire, opened.bmc_id)
            raise WrongCredentials(f"BMC {self.address} has another password for '{self.credentials.user}'")
        return secrets

    async def prove_both(self, wire: Wire, secrets: LoginSecrets) -> None:
        payload = handshake.rakp_3(self.tag, secrets.bmc_id, secrets.console_proof())
        answer = await wire.login_step(
            plain(Payload.RAKP_3, payload), Payload.RAKP_4, self.mine(handshake.parse_rakp_4)
        )
        if answer.status in (handshake.INVALID_SESSION, handshake.INVALID_INTEGRITY_VALUE):
            # The password is proven right by now, so this is a mix-up of repeated packets: start over.
            raise Lost
        self.check(answer.status)
        if not hmac.compare_digest(secrets.session_proof(), answer.proof):
            raise WrongCredentials(
                f"BMC {self.address} proved the password but not the session key",
                hint="the BMC has its own key (Kg) set: give it, or clear it in the BMC's setup",
            )

    def abandon(self, wire: Wire, bmc_id: bytes) -> None:
        """Say that we stop here, so that the half-open session does not take one of its few slots."""
        payload = handshake.rakp_3(self.tag, bmc_id, b"", handshake.INVALID_INTEGRITY_VALUE)
        wire.send(plain(Payload.RAKP_3, payload))

    def mine(self, parse: Callable[[bytes], Answer]) -> Callable[[bytes], Answer | None]:
        """Answers to this very attempt; late ones to an earlier attempt carry another tag."""

        def accept(payload: bytes) -> Answer | None:
            try:
                answer = parse(payload)
            except Malformed:
                return None
            mine = answer.tag == self.tag and answer.console_id in (self.console_bytes, b"")
            return answer if mine or (answer.status and answer.tag == self.tag) else None

        return accept

    def check(self, status: int) -> None:
        if status:
            raise self.fault(status)

    def fault(self, status: int) -> BmcFault:
        if status in (handshake.NO_RESOURCES, handshake.NO_RESOURCES_AT_ROLE):
            return NoFreeSession(f"BMC {self.address} has no free session")
        if status in (handshake.UNAUTHORIZED_NAME, handshake.INVALID_NAME_LENGTH):
            return WrongCredentials(f"BMC {self.address} has no user '{self.credentials.user}' for the network")
        return BadAnswer(f"BMC {self.address} ended the login with status 0x{status:02x}")
