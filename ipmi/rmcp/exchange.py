"""One question that waits for its answer, repeated until it comes or is given up."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
# Gentle: the whole conversation has three seconds, and a BMC has a queue of one.
GROWTH = 1.3


class Lost(Exception):
    """No answer after all repetitions; what that means is for the caller to say."""


@dataclass(frozen=True)
class Patience:
    """How often a question is sent, and how long the first answer may take; each wait is longer than the one before."""

    sends: int
    wait: float


class Exchange(Generic[Answer]):
    """Timer callbacks instead of a task or wait_for: this is what a thousand BMCs cost."""

    def __init__(self, send: Callable[[], None], accept: Callable[[object], Answer | None], patience: Patience) -> None:
        self.loop = asyncio.get_running_loop()
        self.send = send
        self.accept = accept
        self.left = patience.sends
        self.wait = patience.wait
        self.future: asyncio.Future[Answer] = self.loop.create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.started = self.loop.time()
        self.repeated = False

    async def run(self) -> Answer:
        self.fire()
        try:
            return await self.future
        finally:
            if self.timer is not None:
                self.timer.cancel()

    def fire(self) -> None:
        if self.future.done():
            return
        if self.left == 0:
            self.future.set_exception(Lost())
            return
        self.left -= 1
        self.repeated = self.timer is not None
        self.timer = self.loop.call_later(self.wait, self.fire)
        self.wait *= GROWTH
        self.send()

    def offer(self, message: object) -> bool:
        """Whether this was the awaited answer."""
        if self.future.done():
            return False
        answer = self.accept(message)
        if answer is None:
            return False
        self.future.set_result(answer)
        return True
