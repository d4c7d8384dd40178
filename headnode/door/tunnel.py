"""A console in the browser: the WebSocket that headnode-bmc serves on loopback, led through this door.

The ticket that opens it stays on this side. Bytes are passed on as they are; this process understands none of them.
"""

import selectors
import socket
import ssl
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from flask import Response, request
from werkzeug.exceptions import Forbidden

from headnode import bmclink
from headnode.accounts import Role
from headnode.door import audit, state
from headnode.errors import HeadnodeError
from headnode.model import Node

CHUNK = 64 * 1024
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
    return Tunnel(port, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


def ticket_for(node: str, who: str, *, write: bool, share: bool) -> tuple[str, int]:
    with bmclink.connected(state.context().paths) as connection:
        if connection is None:
            raise HeadnodeError("headnode-bmc is not running, and it holds the consoles")
        wanted = {"verb": "ticket", "node": node, "who": who, "write": write, "share": share}
        said = next(bmclink.ask(connection, wanted))
    return str(said["ticket"]), int(said["port"])


class Tunnel(Response):
    """Takes the connection over when the server comes to send the answer."""

    def __init__(self, port: int, opening: bytes) -> None:
        super().__init__(status=101)
        self.port = port
        self.opening = opening

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        browser = environ["gunicorn.socket"]
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as inside:
            inside.sendall(self.opening)
            relay(browser, inside)
        # The server's own word for: there is nothing more to send, close it.
        raise StopIteration


def relay(one: socket.socket, other: socket.socket) -> None:
    """Both ways, until either end has gone."""
    one.settimeout(30)
    other.settimeout(30)
    with selectors.DefaultSelector() as waiting:
        waiting.register(one, selectors.EVENT_READ, other)
        waiting.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in waiting.select():
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
