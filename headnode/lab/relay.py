"""The people's door, on the host: a port of the loopback address whose connections go to a unix socket in the lab."""

import asyncio
import contextlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from headnode.lab.world import free_port

LOOK_EVERY = 0.5
CHUNK = 65536


class Relay:
    """Listens only once there is something to listen for."""

    def __init__(self, wanted: int, target: Path) -> None:
        self.port: int | None = None
        self._wanted = wanted
        self._target = target
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="relay", daemon=True)

    async def _run(self) -> None:
        while not self._target.exists():
            if self._over.is_set():
                return
            await asyncio.sleep(LOOK_EVERY)
        port = free_port(self._wanted)
        server = await asyncio.start_server(self._carry, "127.0.0.1", port)
        self.port = port
        async with server:
            while not self._over.is_set():
                await asyncio.sleep(LOOK_EVERY)

    async def _carry(self, caller: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            answer, onwards = await asyncio.open_unix_connection(self._target)
        except OSError:
            # The service is being restarted: the browser asks again.
            back.close()
            return
        await asyncio.gather(copy(caller, onwards), copy(answer, back))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(5)


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
    with contextlib.suppress(OSError):
        target.close()
