"""The people's door, on the host: a port of the loopback address whose connections go to a unix socket in the lab."""

import asyncio
import contextlib
from pathlib import Path

from headnode.lab.background import Background
from headnode.lab.world import free_port

LOOK_EVERY = 0.5
CHUNK = 65536


class Relay(Background):
    """Listens only once there is something to listen for."""

    def __init__(self, wanted: int, target: Path) -> None:
        super().__init__("people's door")
        self.port: int | None = None
        self._wanted = wanted
        self._target = target

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        while not self._target.exists():
            if self.over.is_set():
                return
            await asyncio.sleep(LOOK_EVERY)
        port = free_port(self._wanted)
        server = await asyncio.start_server(self._carry, "127.0.0.1", port)
        self.port = port
        async with server:
            while not self.over.is_set():
                await asyncio.sleep(LOOK_EVERY)

    async def _carry(self, caller: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            answer, onwards = await asyncio.open_unix_connection(self._target)
        except OSError:
            # The service is being restarted: the browser asks again.
            back.close()
            return
        await asyncio.gather(copy(caller, onwards), copy(answer, back))


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError):
        target.close()
