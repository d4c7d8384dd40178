"""The unix socket: one line of JSON is a question, lines of JSON are the answer. Only root gets one."""

import asyncio
import base64
import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headnode.bmcd.keeper import Keeper
from headnode.bmcd.tickets import Ticket, Tickets
from headnode.bmcd.viewing import SCROLLBACK, Seat, first_done, seat, type_safely
from headnode.errors import HeadnodeError
from headnode.log import logger
from headnode.workflows import bmcs
from ipmi.recording import Record

LONGEST_LINE = 16 * 1024 * 1024


class Door:
    """Serves the socket; `keeper` is there once BMCs can be reached."""

    def __init__(self, path: Path, tickets: Tickets) -> None:
        self.path = path
        self.tickets = tickets
        self.keeper: Keeper | None = None
        self.why_not = "headnode-bmc is just starting"
        self.guests = 0

    async def open(self) -> asyncio.Server:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        old = os.umask(0o177)
        try:
            return await asyncio.start_unix_server(self.guest, str(self.path), limit=LONGEST_LINE, backlog=256)
        finally:
            os.umask(old)

    async def guest(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if may_enter(writer.get_extra_info("socket")):
                await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass  # it went away, or sent what is no question
        except Exception as error:  # noqa: BLE001 - one guest's accident must not close the door for all
            logger("headnode.bmc").error("a question failed", reason=repr(error))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = json.loads(await reader.readline() or b"{}")
        if not isinstance(request, dict):
            return
        try:
            if self.keeper is None:
                raise HeadnodeError(self.why_not)
            await self.keeper.refresh()
            await self.answer(self.keeper, request, reader, writer)
            await say(writer, {"done": True})
        except HeadnodeError as error:
            await say(writer, {"refused": error.message, "hint": error.hint, "code": error.exit_code})

    async def answer(
        self, keeper: Keeper, request: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match request.get("verb"):
            case "status":
                await say(writer, {"pid": os.getpid(), "bmcs": len(keeper.fleet.targets)})
            case "glance":
                await say(writer, {"nodes": await asyncio.to_thread(keeper.newest.glance)})
            case "ticket":
                ticket = Ticket(str(request["node"]), str(request["who"]), bool(request.get("write")),
                                bool(request.get("share")))  # fmt: skip
                port = keeper.context.site.bmc.port
                await say(writer, {"ticket": self.tickets.issue(ticket, time.monotonic()), "port": port})
            case "console":
                await self.console(keeper, request, reader, writer)
            case _:
                await first_done(ask(keeper, request, writer), gone(reader))

    async def console(
        self, keeper: Keeper, request: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.guests += 1
        who = f"{request.get('who', 'somebody')} #{self.guests}"
        options = {"write": bool(request.get("write")), "share": bool(request.get("share"))}
        async with seat(keeper, str(request.get("node")), who, **options, scrollback=SCROLLBACK) as place:
            await say(writer, {"kind": "seat", "typing": place.type is not None, "why_not": place.why_not})
            await say(writer, {"kind": "past", "data": base64.b64encode(place.scrollback).decode()})
            await first_done(show(place, writer), typed(place, reader, writer))


async def ask(keeper: Keeper, request: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
    """Whom the request is about, in order, then their answers as they come."""
    nodes = keeper.named(request)
    await say(writer, {"asking": [node.name for node in nodes]})
    without = bmcs.unanswerable(nodes)
    for answer in without:
        await say(writer, vars(answer))
    names = [node.name for node in nodes if node.name not in {answer.name for answer in without}]
    async for answer in bmcs.perform(keeper.fleet, names, request, keeper.context.paths):
        await say(writer, vars(answer))


async def gone(reader: asyncio.StreamReader) -> None:
    """Until the asker hangs up."""
    while await reader.read(4096):
        pass


async def show(place: Seat, writer: asyncio.StreamWriter) -> None:
    while True:
        record: Record = await place.viewer.next()
        data = base64.b64encode(record.data).decode()
        await say(writer, {"kind": record.kind.value, "at": record.at, "data": data})


async def typed(place: Seat, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        data = base64.b64decode(json.loads(line)["type"])
        trouble = await type_safely(place.type, data) if place.type else place.why_not
        if trouble:
            await say(writer, {"kind": "note", "text": trouble})


async def say(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    await writer.drain()


def may_enter(connection: Any) -> bool:
    """The file's mode already says so; the kernel knows for certain who is there."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return user in (0, os.getuid())
