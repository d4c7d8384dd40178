"""A node's serial console over the BMC's own session."""

import asyncio
from typing import Final

from ipmi import requests, sol
from ipmi.completion import fault_for
from ipmi.faults import BmcFault, ConsoleTaken, TimedOut, Unsupported
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.exchange import Exchange, Lost, Patience
from ipmi.rmcp.link import Link
from ipmi.rmcp.packet import Payload, Request
from ipmi.rmcp.session import Session

TAKEN, DISABLED = 0x80, 0x81
ACTIVATION: Final = {
    0x80: "another session holds the console",
    0x81: "serial over LAN is switched off",
    0x82: "too many consoles are open",
    0x83: "it cannot encrypt the console",
    0x84: "it cannot do without encrypting the console",
}
PATIENCE: Final = Patience(6, 0.3)
# Unread beyond this, nothing more is acknowledged and the BMC holds the rest back.
MOST_UNREAD: Final = 1024 * 1024
PROBE_EVERY: Final = 20.0


class SolConsole:
    """Made by `open`. Ends by itself when the session does; whoever keeps consoles opens a new one then."""

    def __init__(self, link: Link, session: Session, size: int) -> None:
        self.link = link
        self.session = session
        self.size = size
        self.inbound = sol.Inbound()
        self.number = 0
        self.unread: asyncio.Queue[bytes] = asyncio.Queue()
        self.unread_bytes = 0
        self.over = False
        self.writing = asyncio.Lock()
        self.exchange: Exchange[sol.SolPacket] | None = None
        self.prober: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, link: Link) -> "SolConsole":
        """Takes the console from whoever holds it: mostly our own past, which ended without a word."""
        if link.on_session_lost is not None:
            link.on_session_lost()  # a console of this very link: its reader must learn that it is over
        data = await activate(link)
        session = link.session
        if session is None:
            raise TimedOut(f"BMC {link.address[0]} lost the session while opening the console")
        console = cls(link, session, requests.sol_size(data))
        link.on_sol = console.receive
        link.on_session_lost = console.end
        await console.greet()
        return console

    async def greet(self) -> None:
        """An empty packet first: a BMC that remembers the last holder's number drops one that repeats it.

        A BMC that acknowledges it can be probed the same way later, end to end.
        """
        try:
            async with self.writing:
                await self.deliver(b"", Patience(2, 0.2))
        except TimedOut:
            return
        self.prober = asyncio.create_task(self.probe(), name=f"console probe {self.link.address[0]}")

    async def probe(self) -> None:
        """Notices within a minute that the console was taken away, which no BMC tells."""
        while not self.over:
            await asyncio.sleep(PROBE_EVERY)
            try:
                async with self.writing:
                    await self.deliver(b"", PATIENCE)
            except BmcFault:
                self.end()

    # -- reading -----------------------------------------------------------------------------------------

    def receive(self, payload: bytes) -> None:
        try:
            packet = sol.parse(payload)
        except Malformed:
            return
        if packet.acknowledged and self.exchange is not None:
            self.exchange.offer(packet)
        if self.unread_bytes < MOST_UNREAD:
            new, reply = self.inbound.take(packet)
            if reply is not None:
                self.send(reply)
            if new:
                self.unread_bytes += len(new)
                self.unread.put_nowait(new)
        if packet.status & sol.DEACTIVATED:
            self.end()

    async def read(self) -> bytes:
        if self.over and self.unread.empty():
            return b""
        data = await self.unread.get()
        self.unread_bytes -= len(data)
        return data

    # -- writing -----------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        async with self.writing:
            while data:
                data = data[await self.deliver(data[: self.size], PATIENCE) :]

    async def deliver(self, piece: bytes, patience: Patience) -> int:
        """How many characters the BMC took of this piece."""
        if self.over:
            raise TimedOut(f"the console of BMC {self.link.address[0]} is closed")
        self.number = number = sol.next_number(self.number)
        packet = sol.SolPacket(number, data=piece)

        def accept(answer: object) -> sol.SolPacket | None:
            mine = isinstance(answer, sol.SolPacket) and answer.acknowledged == number
            return answer if mine and isinstance(answer, sol.SolPacket) else None

        self.exchange = Exchange[sol.SolPacket](self.link.engine.clock, lambda: self.send(packet), accept, patience)
        try:
            answer = await self.exchange.run()
        except Lost:
            raise TimedOut(f"the console of BMC {self.link.address[0]} takes no input") from None
        finally:
            self.exchange = None
        if answer.refused and answer.accepted < len(piece):
            await asyncio.sleep(0.05)  # its buffer is full: let it empty
        return min(answer.accepted, len(piece))

    def send(self, packet: sol.SolPacket) -> None:
        if not self.over:
            self.link.send(self.session.seal(Payload.SOL, sol.build(packet)))

    # -- ending ------------------------------------------------------------------------------------------

    def end(self) -> None:
        if self.over:
            return
        self.over = True
        self.unread.put_nowait(b"")
        if self.link.on_sol == self.receive:
            self.link.on_sol = None
            self.link.on_session_lost = None
        if self.prober is not None and self.prober is not asyncio.current_task():
            self.prober.cancel()

    async def close(self) -> None:
        if self.over:
            return
        self.end()
        if self.link.session is self.session:
            try:
                await self.link.ask(requests.deactivate_sol())
            except BmcFault:
                return  # the session is gone, and the console with it


async def activate(link: Link) -> bytes:
    address = link.address[0]
    for _ in range(3):
        answer = await link.ask(requests.activate_sol())
        if answer.code == 0:
            return requests.need(answer.data, 6)
        if answer.code != TAKEN:
            break
        await deactivate(link)
    if answer.code == TAKEN:
        raise ConsoleTaken(f"another tool holds the console of BMC {address} and does not let go")
    if answer.code == DISABLED:
        raise Unsupported(f"serial over LAN of BMC {address} is switched off", hint="enable it in the BMC's setup")
    raise fault_for(answer.code, address, "open its console", ACTIVATION)


async def deactivate(link: Link) -> None:
    request: Request = requests.deactivate_sol()
    await link.ask(request)
    await asyncio.sleep(0.1)
