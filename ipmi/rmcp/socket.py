"""One UDP socket for every BMC, drained in bursts: asyncio's own transport wakes once per datagram."""

import asyncio
import contextlib
import socket as sockets
from collections.abc import Callable
from typing import Final

from headnode.errors import HeadnodeError

Address = tuple[str, int]
Receiver = Callable[[bytes], None]

# A thousand BMCs may answer at once; the kernel caps this at net.core.rmem_max.
RECEIVE_BUFFER: Final = 4 * 1024 * 1024
BURST: Final = 128


class BmcSocket:
    """Bound to one local address, so that management traffic never leaves by another network."""

    def __init__(self, local_address: str) -> None:
        self.local_address = local_address
        self.receivers: dict[Address, Receiver] = {}
        # Answers from addresses nobody asked: a presence scan listens here.
        self.others: Callable[[bytes, Address], None] | None = None
        self.sent = 0
        self.received = 0
        family = sockets.AF_INET6 if ":" in local_address else sockets.AF_INET
        self.socket = sockets.socket(family, sockets.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, RECEIVE_BUFFER)
        self.bind()
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.socket.fileno(), self.drain)

    def bind(self) -> None:
        try:
            self.socket.bind((self.local_address, 0))
        except OSError as error:
            self.socket.close()
            raise HeadnodeError(
                f"cannot use the management address {self.local_address}: {error.strerror}",
                hint="networks.management in site.yaml must name an address of this machine",
            ) from error

    def send(self, data: bytes, address: Address) -> None:
        self.sent += 1
        # A full buffer or an unroutable address is a lost packet: retransmission and deadlines deal with it.
        with contextlib.suppress(OSError):
            self.socket.sendto(data, address)

    def drain(self) -> None:
        for _ in range(BURST):
            try:
                data, source = self.socket.recvfrom(2048)
            except OSError:
                return
            self.received += 1
            address = (source[0], source[1])
            receiver = self.receivers.get(address)
            if receiver is not None:
                receiver(data)
            elif self.others is not None:
                self.others(data, address)

    def close(self) -> None:
        if self.socket.fileno() >= 0:
            self.loop.remove_reader(self.socket.fileno())
            self.socket.close()
