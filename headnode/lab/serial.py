"""The cable between a machine's serial port and its BMC.

QEMU writes all that the port says into a file, whether or not anybody listens; that file is what the BMC hears, so
nothing of an early boot is lost while ipmi_sim redials. What is typed goes the other way, through QEMU's socket.
"""

import contextlib
import socket
import time
from pathlib import Path

from headnode.lab.background import Background
from headnode.lab.net import Namespace

LOOK_EVERY = 0.02
# QEMU has one place for whoever types: it is left free when nobody does.
LINGER = 1.0
CHUNK = 4096


class SerialCable(Background):
    def __init__(self, said: Path, keyboard: Path, host: Namespace) -> None:
        super().__init__(f"serial {said.parent.name}")
        self.said = said
        self.keyboard = keyboard
        self.position = said.stat().st_size if said.exists() else 0
        with host.inside():
            # Sockets stay in the namespace they were made in, and so do those it accepts.
            self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(0.2)
        self.port = int(self.server.getsockname()[1])

    def run(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self.server.accept()
            except TimeoutError:
                continue
            with connection, contextlib.suppress(OSError):
                connection.settimeout(LOOK_EVERY)
                self.carry(connection)

    def carry(self, bmc: socket.socket) -> None:
        typing: socket.socket | None = None
        until = 0.0
        try:
            while not self.over.is_set():
                self.pass_on(bmc)
                try:
                    typed = bmc.recv(CHUNK)
                except TimeoutError:
                    typed = None
                if typed == b"":
                    return
                if typed:
                    typing = typing or self.dial()
                    until = time.monotonic() + LINGER
                if typing is not None:
                    typing = self.enter(typing, typed or b"")
                if typing is not None and time.monotonic() > until:
                    typing.close()
                    typing = None
        finally:
            if typing is not None:
                typing.close()

    def pass_on(self, bmc: socket.socket) -> None:
        with contextlib.suppress(FileNotFoundError), self.said.open("rb") as file:
            file.seek(self.position)
            while data := file.read(CHUNK):
                bmc.settimeout(5.0)
                bmc.sendall(data)
                self.position += len(data)
        bmc.settimeout(LOOK_EVERY)

    def dial(self) -> socket.socket | None:
        """The machine's keyboard; a machine that is off has none."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(self.keyboard))
        except OSError:
            connection.close()
            return None
        connection.setblocking(False)
        return connection

    def enter(self, keyboard: socket.socket, data: bytes) -> socket.socket | None:
        try:
            if data:
                keyboard.sendall(data)
            while keyboard.recv(CHUNK):
                pass  # the same as in the file
        except BlockingIOError:
            return keyboard
        except OSError:
            pass
        keyboard.close()
        return None

    def close(self) -> None:
        self.server.close()
