"""A person at the serial port of an emulated machine."""

import os
import select
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headnode.cli.terminal import HELP, Escapes, Wish, raw_terminal, write

if TYPE_CHECKING:
    from headnode.lab.machine import MachineFiles

LAST = 4096
LOOK_EVERY, LINGER = 0.1, 1.0


def sit(files: "MachineFiles", *, everything: bool) -> None:
    """What the port says is in a file, whoever else watches; what is typed goes to QEMU's socket."""
    interactive = sys.stdin.isatty()
    position = show(files, 0 if everything else None)
    if not interactive:
        return
    escapes, keyboard = Escapes(), Keyboard(files.console_socket)
    with raw_terminal():
        write(b"\r\n[~. leaves, ~? helps]\r\n")
        while True:
            position = show(files, position)
            ready, _, _ = select.select([sys.stdin], [], [], LOOK_EVERY)
            if not ready:
                keyboard.rest()
                continue
            typed = os.read(sys.stdin.fileno(), 4096)
            out, wishes = escapes.feed(typed)
            if out and not keyboard.enter(out):
                write(b"\r\n[the machine is off]\r\n")
            if Wish.HELP in wishes:
                write(HELP.encode())
            if Wish.LEAVE in wishes or not typed:
                return


def show(files: "MachineFiles", position: int | None) -> int:
    if not files.console.exists():
        return 0
    with files.console.open("rb") as said:
        size = os.fstat(said.fileno()).st_size
        said.seek(max(0, size - LAST) if position is None else min(position, size))
        write(said.read())
        return said.tell()


class Keyboard:
    """QEMU has one place for whoever types: it is left free when nobody does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line: socket.socket | None = None
        self.until = 0.0

    def enter(self, data: bytes) -> bool:
        """False when there is nobody to type to."""
        self.until = time.monotonic() + LINGER
        try:
            if self.line is None:
                self.line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.line.connect(str(self.path))
            self.line.sendall(data)
        except OSError:
            self.hang_up()
            return False
        return True

    def rest(self) -> None:
        if time.monotonic() > self.until:
            self.hang_up()

    def hang_up(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None
