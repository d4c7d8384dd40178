"""A console in the browser: the WebSocket that headnode-bmc serves on loopback, led through this door.

It ends with the login that opened it. headnode-bmc knows nothing of logins: it notices that this end has gone.

The ticket that opens it stays on this side. Bytes are passed on as they are; this process understands none of them.
"""

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from flask import Response, request
from werkzeug.exceptions import Forbidden

from headnode import bmclink
from headnode.accounts import Role
from headnode.door import audit, state, visitors
from headnode.errors import HeadnodeError
from headnode.model import Node

CHUNK = 64 * 1024
# How often a console looks whether its login is still good, and how long an end that takes nothing is waited for.
LOOK_EVERY = 5.0
STUCK = 30.0
HANDSHAKE = ("Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions")


def console(node: Node, *, share: bool) -> Response:
    # A browser sends cookies with a WebSocket of any page; only a page of ours may open one.
    if urlsplit(request.headers.get("Origin", "")).netloc != request.host:
        raise Forbidden("this was opened by another site's page")
    visitor = state.visitor()
    write = visitor.role.may(Role.OPERATOR)
    ticket, port = ticket_for(node.name, f"{visitor.account.name} from {audit.origin()}", write=write, share=share)
    path = f"/console/{quote(node.name)}?{urlencode({'ticket': ticket})}"
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: Upgrade", "Upgrade: websocket"]
    lines += [f"{name}: {request.headers[name]}" for name in HANDSHAKE if name in request.headers]
    opening = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return Tunnel(port, opening, visitors.watched(state.door(), visitor))


def ticket_for(node: str, who: str, *, write: bool, share: bool) -> tuple[str, int]:
    with bmclink.connected(state.context().paths) as connection:
        if connection is None:
            raise HeadnodeError("headnode-bmc is not running, and it holds the consoles")
        wanted = {"verb": "ticket", "node": node, "who": who, "write": write, "share": share}
        said = next(bmclink.ask(connection, wanted))
    return str(said["ticket"]), int(said["port"])


class Tunnel(Response):
    """Takes the connection over when the server comes to send the answer."""

    def __init__(self, port: int, opening: bytes, still: Callable[[], bool]) -> None:
        super().__init__(status=101)
        self.port = port
        self.opening = opening
        self.still = still

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        browser = environ["gunicorn.socket"]
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as inside:
            inside.sendall(self.opening)
            relay(browser, inside, self.still)
        # The server's own word for: there is nothing more to send, close it.
        raise StopIteration


def relay(one: socket.socket, other: socket.socket, still: Callable[[], bool]) -> None:
    """Both ways, until either end has gone or the login is over."""
    one.settimeout(STUCK)
    other.settimeout(STUCK)
    look_at = time.monotonic() + LOOK_EVERY
    with selectors.DefaultSelector() as waiting:
        waiting.register(one, selectors.EVENT_READ, other)
        waiting.register(other, selectors.EVENT_READ, one)
        while True:
            # By the clock and not when it is quiet: who types all the time is asked too.
            if time.monotonic() >= look_at:
                if not still():
                    return
                look_at = time.monotonic() + LOOK_EVERY
            for key, _ in waiting.select(max(0.0, look_at - time.monotonic())):
                source = key.fileobj
                assert isinstance(source, socket.socket)  # noqa: S101 - for the type checker
                try:
                    if not passed_on(source, key.data):
                        return
                except OSError:
                    return


def passed_on(source: socket.socket, target: socket.socket) -> bool:
    """False at the end. What TLS has unpacked already would not wake the selector, so it is taken along."""
    try:
        data = source.recv(CHUNK)
    except ssl.SSLWantReadError:
        return True
    while data and isinstance(source, ssl.SSLSocket) and source.pending():
        data += source.recv(source.pending())
    target.sendall(data)
    return bool(data)
