"""The cable between a machine and its BMC inside the case.

QEMU dials a unix socket, as it is in the namespace of the wires; ipmi_sim listens on the loopback address of the BMCs'.
"""

import contextlib
import select
import socket
from pathlib import Path

from headnode.lab.background import Background
from headnode.lab.net import Namespace

LOOK_EVERY = 0.2
CHUNK = 4096


class InBandCable(Background):
    def __init__(self, path: Path, host: Namespace) -> None:
        super().__init__(f"in-band {path.parent.name}")
        self.port = free_port(host)
        self._host = host
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(path))
        self._server.listen()
        self._server.settimeout(LOOK_EVERY)

    def run(self) -> None:
        while not self.over.is_set():
            try:
                machine, _ = self._server.accept()
            except TimeoutError:
                continue
            # A BMC that is dead or restarted: QEMU hangs up with us, and dials again in a second.
            with machine, contextlib.suppress(OSError), self._dial() as bmc:
                self._carry({machine: bmc, bmc: machine})

    def _dial(self) -> socket.socket:
        with self._host.inside():
            return socket.create_connection(("127.0.0.1", self.port), timeout=5)

    def _carry(self, other: dict[socket.socket, socket.socket]) -> None:
        while not self.over.is_set():
            ready, _, _ = select.select(list(other), [], [], LOOK_EVERY)
            for end in ready:
                data = end.recv(CHUNK)
                if not data:
                    return
                other[end].sendall(data)

    def close(self) -> None:
        self._server.close()


def free_port(host: Namespace) -> int:
    with host.inside(), socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
