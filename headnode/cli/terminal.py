"""A person at a console: the raw terminal, and the escape sequences that are for us and not for the node."""

import base64
import contextlib
import json
import os
import select
import socket
import sys
import termios
import tty
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headnode import bmclink
from headnode.errors import HeadnodeError
from headnode.workflows.consoles import shown
from ipmi.recording import Kind, Record

HELP = (
    "\r\nEscapes, at the beginning of a line:\r\n"
    "  ~.  leave the console\r\n"
    "  ~?  this help\r\n"
    "  ~~  send one ~\r\n"
)  # fmt: skip


class Wish(StrEnum):
    LEAVE = "leave"
    HELP = "help"


@dataclass
class Escapes:
    """Takes what is typed apart: what goes to the node, and what is for us. As in ssh, ~ counts after Enter. Pure."""

    fresh: bool = True
    waiting: bool = False

    def feed(self, data: bytes) -> tuple[bytes, list[Wish]]:
        out = bytearray()
        wishes: list[Wish] = []
        for byte in data:
            if self.waiting:
                self.waiting = False
                if byte == ord("."):
                    return bytes(out), [*wishes, Wish.LEAVE]
                if byte == ord("?"):
                    wishes.append(Wish.HELP)
                    self.fresh = True
                    continue
                if byte != ord("~"):
                    out += b"~"
                self.fresh = False
            elif self.fresh and byte == ord("~"):
                self.waiting = True
                continue
            out.append(byte)
            self.fresh = byte in b"\r\n"
        return bytes(out), wishes


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes to the node; the terminal is given back as it was, whatever happens."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def sit(connection: socket.socket, node: str, who: str, *, share: bool, watch: bool) -> None:
    """Until ~. is typed, or the other end is gone."""
    bmclink.say(connection, {"verb": "console", "node": node, "who": who, "write": not watch, "share": share})
    escapes = Escapes()
    unread = b""
    source = sys.stdin.fileno()
    with raw_terminal():
        # A script that only watches has no keyboard, and the end of its input means nothing.
        keyboard = [] if watch and not sys.stdin.isatty() else [source]
        sources: list[int | socket.socket] = [connection, *keyboard]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if connection in ready:
                if not (data := connection.recv(65536)):
                    raise HeadnodeError("headnode-bmc has ended; it is started anew by itself", hint="open it again")
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    write(told(json.loads(line), node))
            if source in ready:
                typed = os.read(source, 4096)
                if not typed:
                    return
                out, wishes = escapes.feed(typed)
                if out:
                    bmclink.say(connection, {"type": base64.b64encode(out).decode()})
                if Wish.HELP in wishes:
                    write(HELP.encode())
                if Wish.LEAVE in wishes:
                    write(b"\r\n[left the console]\r\n")
                    return


def told(message: dict[str, object], node: str) -> bytes:
    """A line from headnode-bmc as what the terminal shows."""
    if "refused" in message:
        raise HeadnodeError(str(message["refused"]), hint=str(message.get("hint", "")))
    match message.get("kind"):
        case "seat":
            keyboard = "~. leaves, ~? helps" if message["typing"] else f"watching only: {message['why_not']}; ~. leaves"
            return f"[console of {node}: {keyboard}]\r\n".encode()
        case "past":
            return base64.b64decode(str(message["data"]))
        case "note":
            return f"\r\n[console: {message['text']}]\r\n".encode()
        case "d" | "x" | "h":
            data = base64.b64decode(str(message["data"]))
            return shown(Record(Kind(str(message["kind"])), 0.0, data))
    return b""


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
