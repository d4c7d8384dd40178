"""A stand-in for headnode-bmc, as far as a console in the browser needs one: a ticket, and a WebSocket that echoes."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from headnode.paths import Paths


@dataclass
class FakeBmc:
    """`left` is set when the far end of a console has gone."""

    port: int = 0
    left: threading.Event = field(default_factory=threading.Event)

    def console(self, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            for message in connection:
                connection.send(message)
        self.left.set()

    def tickets(self, listening: socket.socket) -> None:
        while True:
            try:
                guest, _ = listening.accept()
            except OSError:
                return
            with guest, guest.makefile("rwb") as lines:
                lines.readline()
                said: tuple[dict[str, object], ...] = ({"ticket": "x", "port": self.port}, {"done": True})
                lines.write(b"".join(json.dumps(one).encode() + b"\n" for one in said))


@contextmanager
def fake_bmc(paths: Paths) -> Iterator[FakeBmc]:
    made = FakeBmc()
    paths.runtime.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening, serve(made.console, "127.0.0.1", 0) as server:
        listening.bind(str(paths.bmc_socket))
        listening.listen()
        made.port = port_of(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        threading.Thread(target=made.tickets, args=(listening,), daemon=True).start()
        yield made
        server.shutdown()
        # Closing alone does not wake who is waiting in accept().
        listening.shutdown(socket.SHUT_RDWR)


def port_of(server: Server) -> int:
    return int(server.socket.getsockname()[1])
