"""One BMC: its session, its queue with one command in flight, its faults and its back-off."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ipmi.faults import BmcFault, NoFreeSession, Refused, TimedOut, Unreachable, Unsupported, WrongCredentials
from ipmi.readings import Credentials
from ipmi.rmcp import handshake
from ipmi.rmcp.backoff import Backoff
from ipmi.rmcp.crypto import SUITES, Suite
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.exchange import Exchange, Lost, Patience
from ipmi.rmcp.login import Login, RoleRejected, SuiteRejected
from ipmi.rmcp.packet import Packet, Payload, Request, Response, parse, parse_response, request_message
from ipmi.rmcp.session import Session
from ipmi.rmcp.socket import Address

if TYPE_CHECKING:
    from ipmi.rmcp.engine import Engine

Answer = TypeVar("Answer")
APP: Final = 0x06
GET_DEVICE_ID: Final = Request(APP, 0x01)
NODE_BUSY: Final = 0xC0
FIRST_WAIT: Final = 0.4
SHORTEST_WAIT: Final = 0.25
LONGEST_WAIT: Final = 1.0
CLOSE_WAIT: Final = 0.4
# Wrong passwords are not tried again soon: many BMCs lock the account after a few.
CREDENTIALS_WAIT: Final = 30.0
SESSION_WAIT: Final = 5.0


class Link:
    """Made by `Engine.link`; opens its session when first asked something and keeps it."""

    def __init__(
        self, engine: "Engine", address: Address, credentials: Credentials, suites: tuple[Suite, ...] = SUITES
    ) -> None:
        self.engine = engine
        self.address = address
        self.credentials = credentials
        self.suites = list(suites)
        self.roles = [handshake.ADMINISTRATOR, handshake.OPERATOR]
        self.session: Session | None = None
        # Logged in, but its privilege is not raised yet.
        self.opening: Session | None = None
        self.backoff = Backoff()
        self.last_fault: BmcFault | None = None
        self.turn = asyncio.Lock()
        self.exchange: Exchange[Any] | None = None
        self.loop = asyncio.get_running_loop()
        self.round_trip = 0.0
        self.last_used = self.loop.time()
        self.last_asked = 0.0
        self.heard = 0
        self.late = 0.0
        # Serial over LAN rides on the same session: a cheap BMC has few.
        self.on_sol: Callable[[bytes], None] | None = None
        self.on_session_lost: Callable[[], None] | None = None

    # -- asking ------------------------------------------------------------------------------------------

    async def ask(self, request: Request, *, repeatable: bool = True) -> Response:
        """The BMC's answer, whatever its completion code, within the engine's deadline; else a BmcFault."""
        return await self.in_turn(lambda: self.converse(request, repeatable))

    async def open(self) -> None:
        """Log in, unless that is done already; a fault when it cannot be."""
        await self.in_turn(self.logged_in)

    async def in_turn(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """One conversation at a time, within the deadline; what goes wrong is remembered for the back-off."""
        async with self.turn, self.engine.window:
            self.check_backoff()
            heard = self.heard
            try:
                async with asyncio.timeout(self.engine.deadline):
                    answer = await work()
            except TimeoutError:
                fault = self.silence(self.heard > heard)
                self.drop_session()
            except BmcFault as error:
                fault = error
            else:
                self.backoff.succeeded()
                self.late = 0.0
                return answer
        self.failed(fault)
        raise fault

    async def converse(self, request: Request, repeatable: bool) -> Response:
        """Log in if need be; a session that fell silent is replaced once more while there is time."""
        while True:
            session = await self.logged_in()
            try:
                answer = await self.command(session, request, repeatable)
            except Lost:
                self.drop_session()
                continue
            if answer.code != NODE_BUSY:
                return answer
            await asyncio.sleep(0.1)

    async def logged_in(self) -> Session:
        if self.session is None:
            self.session = await self.login()
        return self.session

    async def command(self, session: Session, request: Request, repeatable: bool) -> Response:
        number = session.next_message()
        message = request_message(request, number)

        def accept(answer: object) -> Response | None:
            if not isinstance(answer, Response) or (answer.sequence, answer.command) != (
                number,
                request.command,
            ):
                return None
            return answer if answer.netfn == request.netfn | 1 else None

        def send() -> None:
            self.send(session.seal(Payload.IPMI, message))

        # What must not happen twice is repeated only when the first sending must have been lost.
        patience = Patience(5, self.wait()) if repeatable else Patience(2, LONGEST_WAIT)
        return await self.run(Exchange[Response](self.engine.clock, send, accept, patience))

    async def login(self) -> Session:
        attempt = 0
        while True:
            suite = self.suites[attempt % len(self.suites)]
            role = self.roles[0]
            session_id, tag = self.engine.next_session()
            login = Login(self.address[0], self.credentials, suite, role, session_id, tag)
            try:
                self.opening = session = await login.run(self)
                await self.raise_privilege(session, role)
            except Lost:
                attempt += 1
            except SuiteRejected:
                self.without_suite(suite)
            except RoleRejected:
                self.without_role(role)
            else:
                self.suites = [suite]
                return session
            finally:
                self.opening = None

    async def login_step(self, datagram: bytes, kind: int, accept: Callable[[bytes], Answer | None]) -> Answer:
        def accept_packet(packet: object) -> Answer | None:
            return accept(packet.payload) if isinstance(packet, Packet) and packet.kind == kind else None

        patience = Patience(2, self.wait())
        return await self.run(Exchange[Answer](self.engine.clock, lambda: self.send(datagram), accept_packet, patience))

    async def raise_privilege(self, session: Session, role: int) -> None:
        answer = await self.command(session, Request(APP, 0x3B, bytes((role,))), True)
        if answer.code:
            await self.close_session(session)
            raise RoleRejected

    def without_suite(self, suite: Suite) -> None:
        self.suites.remove(suite)
        if not self.suites:
            self.suites = list(SUITES)
            raise Unsupported(
                f"BMC {self.address[0]} speaks neither cipher suite 17 nor 3",
                hint="enable one of them in the BMC's setup; suite 0 lets anybody in and is never used",
            )

    def without_role(self, role: int) -> None:
        self.roles.remove(role)
        if not self.roles:
            self.roles = [handshake.ADMINISTRATOR, handshake.OPERATOR]
            raise WrongCredentials(
                f"BMC {self.address[0]}: '{self.credentials.user}' is neither administrator nor operator"
            )

    async def run(self, exchange: Exchange[Answer]) -> Answer:
        self.exchange = exchange
        try:
            answer = await exchange.run()
        finally:
            self.exchange = None
        self.last_used = now = self.loop.time()
        if not exchange.repeated:
            took = now - exchange.started
            self.round_trip = took if not self.round_trip else 0.8 * self.round_trip + 0.2 * took
        return answer

    def wait(self) -> float:
        """Before repeating: long enough for this BMC's pace, short enough for a lost packet."""
        if not self.round_trip:
            return FIRST_WAIT
        return min(LONGEST_WAIT, max(SHORTEST_WAIT, 4 * self.round_trip))

    # -- datagrams ---------------------------------------------------------------------------------------

    def send(self, datagram: bytes) -> None:
        self.last_asked = self.loop.time()
        self.engine.socket.send(datagram, self.address)

    def receive(self, datagram: bytes) -> None:
        try:
            packet = parse(datagram)
            if packet.kind >= Payload.OPEN_SESSION_REQUEST and packet.session_id == 0:
                self.offer(packet)
            else:
                self.receive_sealed(packet)
        except Malformed:
            return  # anybody can send us datagrams; only good ones count

    def receive_sealed(self, packet: Packet) -> None:
        session = self.session or self.opening
        if session is None:
            return
        payload = session.open(packet)
        if packet.kind == Payload.IPMI:
            self.offer(parse_response(payload))
        elif packet.kind == Payload.SOL and self.on_sol is not None:
            self.heard += 1
            self.last_used = self.loop.time()
            self.on_sol(payload)

    def offer(self, message: object) -> None:
        self.heard += 1
        if self.exchange is None or not self.exchange.offer(message):
            self.late = max(self.late, self.loop.time() - self.last_asked)

    # -- faults ------------------------------------------------------------------------------------------

    def silence(self, heard: bool) -> BmcFault:
        where, limit = f"BMC {self.address[0]}", f"{self.engine.deadline:g} s"
        if self.late > self.engine.deadline / 2:
            return TimedOut(f"{where} answers, but only after about {self.late:.0f} s; the limit is {limit}")
        if heard:
            return TimedOut(f"{where} answered only part of the conversation within {limit}")
        if self.heard:
            return TimedOut(f"{where} was there before and now gave no answer within {limit}")
        return Unreachable(f"BMC {where[4:]} gave no answer within {limit}")

    def failed(self, fault: BmcFault) -> None:
        if isinstance(fault, (Refused, Unsupported)):
            return
        wait = {WrongCredentials: CREDENTIALS_WAIT, NoFreeSession: SESSION_WAIT}.get(type(fault), 0.0)
        self.last_fault = fault
        self.backoff.failed(self.loop.time(), random.random(), wait)  # noqa: S311 - jitter, not a secret

    def check_backoff(self) -> None:
        """While a BMC is left alone, questions are answered at once with what was wrong with it."""
        left = self.backoff.remaining(self.loop.time())
        if self.session is None and left > 0 and self.last_fault is not None:
            fault = self.last_fault
            raise type(fault)(f"{fault.message} (next try in {left:.0f} s)", hint=fault.hint)

    def forgive(self) -> None:
        """Somebody did something about it (or asks again on purpose): the next question is tried at once."""
        self.backoff.succeeded()

    # -- ending ------------------------------------------------------------------------------------------

    def drop_session(self) -> None:
        """Forget a session that no longer answers, telling the BMC in case it still hears us."""
        session, self.session = self.session, None
        if session is not None:
            self.send(session.closing())
            if self.on_session_lost is not None:
                self.on_session_lost()

    async def close_session(self, session: Session) -> None:
        message = request_message(session.close_request(), session.next_message())

        def accept(answer: object) -> Response | None:
            return answer if isinstance(answer, Response) and answer.command == 0x3C else None

        def send() -> None:
            self.send(session.seal(Payload.IPMI, message))

        with contextlib.suppress(Lost):
            await self.run(Exchange[object](self.engine.clock, send, accept, Patience(2, CLOSE_WAIT)))

    async def close(self) -> None:
        """Log out; what cannot be said is left to the BMC's own timeout."""
        async with self.turn:
            if self.session is not None:
                async with self.engine.window:
                    await self.close_session(self.session)
                self.session = None
                if self.on_session_lost is not None:
                    self.on_session_lost()

    async def keep_alive(self) -> None:
        with contextlib.suppress(BmcFault):
            await self.ask(GET_DEVICE_ID)
