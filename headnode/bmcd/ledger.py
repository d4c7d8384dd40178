"""Events on their way into the database: gathered for a moment, written in one go, kept when it cannot be written."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from headnode.errors import HeadnodeError
from headnode.log import logger
from headnode.model import Event
from headnode.workflows.context import Context

GATHER = 0.25
# A machine that panics in a loop for a night while the disk is full must not fill the memory too.
MOST_KEPT = 10_000


class Ledger:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.waiting: list[Event] = []
        self.wake = asyncio.Event()
        self.written = asyncio.Condition()
        self.batches = 0
        self.writing = False

    def note(self, happened: Iterable[Event]) -> None:
        now = datetime.now(UTC)
        self.waiting += [event if event.at else replace(event, at=now) for event in happened]
        del self.waiting[:-MOST_KEPT]
        if self.waiting:
            self.wake.set()

    async def keep(self, happened: list[Event]) -> None:
        """As `note`, and returns when they are in the database."""
        if not happened:
            return
        self.note(happened)
        # A batch may be on its way already; ours is in the next one.
        wanted = self.batches + (2 if self.writing else 1)
        async with self.written:
            await self.written.wait_for(lambda: self.batches >= wanted)

    async def run(self) -> None:
        while True:
            await self.wake.wait()
            await asyncio.sleep(GATHER)
            self.wake.clear()
            if not await self.write():
                await asyncio.sleep(2.0)
                self.wake.set()

    async def write(self) -> bool:
        batch, self.waiting = self.waiting, []
        if not batch:
            return True
        self.writing = True
        try:
            await asyncio.to_thread(self.record, batch)
        except HeadnodeError as error:
            self.waiting = [*batch, *self.waiting]
            logger("headnode.bmc").error("events wait", count=len(self.waiting), reason=error.message)
            return False
        finally:
            self.writing = False
        async with self.written:
            self.batches += 1
            self.written.notify_all()
        return True

    def record(self, batch: list[Event]) -> None:
        with self.context.inventory.change("headnode-bmc", "watching the BMC") as change:
            change.record_all(batch)
