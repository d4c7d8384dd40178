"""Every BMC of a site over one socket: the window, the deadlines, and the care for idle sessions."""

import asyncio
import random
import socket as sockets
from types import TracebackType
from typing import Final, Self

from ipmi.faults import Unreachable
from ipmi.readings import Credentials
from ipmi.rmcp.crypto import SUITES, Suite
from ipmi.rmcp.exchange import Clock
from ipmi.rmcp.link import Link
from ipmi.rmcp.socket import Address, BmcSocket

IPMI_PORT: Final = 623
# BMCs drop a session after 60 s of silence, some cheap ones already after 40 s.
KEEP_ALIVE: Final = 25.0
CLOSING: Final = 2.0


class Engine:
    """`async with Engine(local_address) as engine`: leaving it logs out of every BMC."""

    def __init__(self, local_address: str, *, window: int = 256, deadline: float = 3.0) -> None:
        self.local_address = local_address
        self.socket = BmcSocket(local_address)
        self.clock = Clock()
        self.window = asyncio.Semaphore(window)
        self.deadline = deadline
        self.links: dict[Address, Link] = {}
        self.session_id = random.SystemRandom().randrange(1, 0x7FFFFFFF)
        self.caretaker = asyncio.create_task(self.care(), name="bmc keep-alive")
        self.caring: set[asyncio.Task[None]] = set()

    async def link(
        self,
        host: str,
        credentials: Credentials,
        *,
        port: int = IPMI_PORT,
        suites: tuple[Suite, ...] = SUITES,
    ) -> Link:
        """The one link to a BMC: asking twice gives the same, with the newer credentials."""
        address = await self.resolve(host, port)
        link = self.links.get(address)
        if link is None:
            link = self.links[address] = Link(self, address, credentials, suites)
            self.socket.receivers[address] = link.receive
        elif link.credentials != credentials:
            link.credentials = credentials
            link.forgive()
        return link

    async def resolve(self, host: str, port: int) -> Address:
        try:
            # Numeric addresses are the rule and need no look-up in another thread.
            sockets.inet_pton(self.socket.socket.family, host)
        except OSError:
            pass
        else:
            return host, port
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, family=self.socket.socket.family, type=sockets.SOCK_DGRAM
            )
        except sockets.gaierror as error:
            raise Unreachable(f"the BMC name '{host}' has no address: {error.strerror}") from error
        return str(found[0][4][0]), port

    async def unlink(self, link: Link) -> None:
        await link.close()
        self.links.pop(link.address, None)
        self.socket.receivers.pop(link.address, None)

    def next_session(self) -> tuple[int, int]:
        """A session id that is unique here, and the tag that tells one login attempt from the next."""
        self.session_id = self.session_id % 0xFFFFFFFF + 1
        return self.session_id, self.session_id & 0xFF

    async def care(self) -> None:
        """Keep idle sessions alive; one task for all, because a thousand timers would say the same."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1.0)
            now = loop.time()
            for link in self.links.values():
                if link.session is not None and now - link.last_used > KEEP_ALIVE and not link.turn.locked():
                    task = asyncio.create_task(link.keep_alive())
                    self.caring.add(task)
                    task.add_done_callback(self.caring.discard)

    async def close(self) -> None:
        self.caretaker.cancel()
        for task in self.caring:
            task.cancel()
        await asyncio.gather(self.caretaker, *self.caring, return_exceptions=True)
        closing = [asyncio.create_task(link.close()) for link in self.links.values() if link.session is not None]
        if closing:
            _, late = await asyncio.wait(closing, timeout=CLOSING)
            for task in late:
                task.cancel()
        self.clock.stop()
        self.socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
