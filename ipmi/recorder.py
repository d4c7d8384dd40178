"""Keeps one node's console open for ever: records it, shows it to anybody, and says when it was deaf."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import structlog

from headnode.errors import HeadnodeError
from ipmi.bmc import Console
from ipmi.faults import BmcFault, ConsoleTaken, TimedOut
from ipmi.phases import Phase, PhaseRecogniser
from ipmi.recording import Kind, Record, Recording
from ipmi.rmcp.backoff import Backoff

ALIVE_EVERY: Final = 2.0
# A viewer that falls behind this far loses the oldest: the recording has it all.
VIEWER_QUEUE: Final = 1024

Connect = Callable[[], Awaitable[Console]]


class Viewer:
    """Records as they come; `missed` counts those dropped because this viewer was too slow."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Record] = asyncio.Queue(VIEWER_QUEUE)
        self.missed = 0

    def show(self, record: Record) -> None:
        if self.queue.full():
            self.queue.get_nowait()
            self.missed += 1
        self.queue.put_nowait(record)

    async def next(self) -> Record:
        return await self.queue.get()


class ConsoleRecorder:
    def __init__(
        self,
        name: str,
        connect: Connect,
        recording: Recording,
        *,
        on_phase: Callable[[Phase], None] | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self.connect = connect
        self.recording = recording
        self.on_phase = on_phase
        self.backoff = backoff or Backoff(first=0.5, longest=30.0)
        self.phases = PhaseRecogniser()
        self.viewers: set[Viewer] = set()
        self.writers: dict[str, bool] = {}
        self.console: Console | None = None
        # A recording that exists already was deaf since its last writer ended, however that ended.
        self.deaf_since = recording.last_sign_of_life()
        self.why_deaf = "the recorder was not running"
        self.task: asyncio.Task[None] | None = None

    # -- keeping it open ---------------------------------------------------------------------------------

    def start(self) -> None:
        self.task = asyncio.create_task(self.run(), name=f"console {self.name}")

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                self.console = await self.connect()
                await self.listen(self.console)
                why = "the console was closed by the BMC or its session was lost"
            except HeadnodeError as fault:
                why = fault.message
            except OSError as error:
                why = str(error)
                structlog.get_logger("ipmi.recorder").error("recording failed", node=self.name, why=why)
            with contextlib.suppress(OSError):
                self.deaf(why)
            self.backoff.failed(loop.time(), random.random())  # noqa: S311 - jitter, not a secret
            await asyncio.sleep(self.backoff.remaining(loop.time()))

    async def listen(self, console: Console) -> None:
        alive = asyncio.create_task(self.show_life())
        try:
            self.hearing()
            self.backoff.succeeded()
            while data := await console.read():
                self.heard(data)
        finally:
            alive.cancel()
            self.console = None
            with contextlib.suppress(BmcFault):
                await console.close()

    async def show_life(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_EVERY)
            self.recording.touch()

    def heard(self, data: bytes) -> None:
        self.publish(Kind.DATA, data)
        for phase in self.phases.feed(data):
            if self.on_phase is not None:
                self.on_phase(phase)

    def deaf(self, why: str) -> None:
        if self.deaf_since is not None:
            self.why_deaf = why
            return
        self.deaf_since, self.why_deaf = self.recording.clock(), why
        self.publish(Kind.DEAF, why.encode())

    def hearing(self) -> None:
        if self.deaf_since is None:
            self.recording.touch()
            return
        words = f"deaf from {stamp(self.deaf_since)} to {stamp(self.recording.clock())}: {self.why_deaf}"
        self.publish(Kind.HEARING, words.encode())
        self.deaf_since = None

    def publish(self, kind: Kind, data: bytes) -> None:
        record = self.recording.write(kind, data)
        for viewer in self.viewers:
            viewer.show(record)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.recording.close()

    # -- people ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Viewer]:
        viewer = Viewer()
        self.viewers.add(viewer)
        try:
            yield viewer
        finally:
            self.viewers.discard(viewer)

    @asynccontextmanager
    async def typing(self, who: str, *, share: bool = False) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
        """The keyboard: one at a time, unless all who hold it agreed to share."""
        if self.writers and not (share and all(self.writers.values())):
            raise ConsoleTaken(f"{', '.join(sorted(self.writers))} is typing on the console of {self.name}")
        if who in self.writers:
            raise ConsoleTaken(f"{who} is already typing on the console of {self.name}")
        self.writers[who] = share
        try:
            yield lambda data: self.type(who, data)
        finally:
            self.writers.pop(who, None)

    async def type(self, who: str, data: bytes) -> None:
        """What was typed is not recorded, only what the node echoes: passwords are typed too."""
        if self.console is None:
            raise TimedOut(f"the console of {self.name} is not connected: {self.why_deaf}")
        await self.console.write(data)


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
