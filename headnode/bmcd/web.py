"""On the loopback address: /metrics for Prometheus, and /console/NODE?ticket=… as a WebSocket for the browser.

Binary frames are what the console says and what is typed. Text frames are JSON from us: whether this seat has the
keyboard, and when the console was deaf.
"""

import asyncio
import http
import json
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from prometheus_client import CONTENT_TYPE_LATEST
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from headnode.bmcd.door import Door
from headnode.bmcd.metrics import Newest
from headnode.bmcd.tickets import Ticket, Tickets
from headnode.bmcd.viewing import Seat, first_done, seat, type_safely
from headnode.errors import HeadnodeError
from ipmi.recording import Kind

LOOPBACK = "127.0.0.1"
PREFIX = "/console/"
# Nobody types or pastes more than this at once.
LARGEST_MESSAGE = 256 * 1024


@dataclass
class Web:
    door: Door
    tickets: Tickets
    newest: Newest
    admitted: dict[str, Ticket] = field(default_factory=dict)

    async def open(self, port: int) -> Server:
        return await serve(
            self.console,
            LOOPBACK,
            port,
            process_request=self.request,
            max_size=LARGEST_MESSAGE,
            server_header=None,
            compression=None,
        )

    async def request(self, connection: ServerConnection, request: Request) -> Response | None:
        """A page, a refusal, or nothing for a WebSocket that may go on."""
        address = urlsplit(request.path)
        if address.path == "/metrics":
            return reply(http.HTTPStatus.OK, await asyncio.to_thread(self.newest.page), CONTENT_TYPE_LATEST)
        if not address.path.startswith(PREFIX):
            return reply(http.HTTPStatus.NOT_FOUND, b"there are /metrics and /console/NODE\n")
        node = unquote(address.path.removeprefix(PREFIX))
        code = parse_qs(address.query).get("ticket", [""])[0]
        ticket = self.tickets.redeem(code, node, time.monotonic())
        if ticket is None:
            return reply(http.HTTPStatus.FORBIDDEN, b"this ticket is not valid, or not any more\n")
        self.admitted[str(connection.id)] = ticket
        return None

    async def console(self, connection: ServerConnection) -> None:
        ticket = self.admitted.pop(str(connection.id))
        if self.door.keeper is None:
            await connection.close(1013, self.door.why_not)
            return
        who = f"{ticket.who} #{str(connection.id)[:8]}"
        try:
            async with seat(self.door.keeper, ticket.node, who, write=ticket.write, share=ticket.share) as place:
                await connection.send(json.dumps({"typing": place.type is not None, "why_not": place.why_not}))
                await connection.send(place.scrollback)
                await first_done(show(place, connection), typed(place, connection))
        except HeadnodeError as error:
            await connection.close(1008, error.message[:100])
        except ConnectionClosed:
            return


async def show(place: Seat, connection: ServerConnection) -> None:
    while True:
        record = await place.viewer.next()
        if record.kind is Kind.DATA:
            await connection.send(record.data)
        else:
            await connection.send(json.dumps({"kind": record.kind.value, "at": record.at, "text": record.text}))


async def typed(place: Seat, connection: ServerConnection) -> None:
    async for message in connection:
        data = message.encode() if isinstance(message, str) else message
        trouble = await type_safely(place.type, data) if place.type else place.why_not
        if trouble:
            await connection.send(json.dumps({"kind": "note", "text": trouble}))


def reply(status: http.HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> Response:
    headers = Headers({"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status.value, status.phrase, headers, body)
