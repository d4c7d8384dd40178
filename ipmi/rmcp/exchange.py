"""One question that waits for its answer, repeated until it comes or is given up."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")
# Gentle: the whole conversation has three seconds, and a BMC has a queue of one.
GROWTH = 1.3
TICK = 0.03


class Lost(Exception):
    """No answer after all repetitions; what that means is for the caller to say."""


@dataclass(frozen=True)
class Patience:
    """How often a question is sent, and how long the first answer may take; each wait is longer than the one before."""

    sends: int
    wait: float


class Exchange(Generic[Answer]):
    """Repeated by a clock that all exchanges share: a timer for each costs more than the cryptography."""

    def __init__(
        self, clock: "Clock", send: Callable[[], None], accept: Callable[[object], Answer | None], patience: Patience
    ) -> None:
        self.clock = clock
        self.send = send
        self.accept = accept
        self.left = patience.sends
        self.wait = patience.wait
        self.future: asyncio.Future[Answer] = clock.loop.create_future()
        self.started = clock.loop.time()
        self.due = self.started
        self.repeated = False

    async def run(self) -> Answer:
        self.clock.waiting.add(self)
        self.fire()
        self.clock.start()
        try:
            return await self.future
        finally:
            self.clock.waiting.discard(self)

    def fire(self) -> None:
        if self.future.done():
            return
        if self.left == 0:
            self.future.set_exception(Lost())
            return
        self.left -= 1
        self.repeated = self.due != self.started
        self.due += self.wait
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


class Clock:
    """Ticks while anything waits, and repeats what is due; precise to a tick, which no BMC notices."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting: set[Exchange[Any]] = set()
        self.timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self.timer is None:
            self.timer = self.loop.call_later(TICK, self.tick)

    def tick(self) -> None:
        self.timer = None
        now = self.loop.time()
        for exchange in [exchange for exchange in self.waiting if exchange.due <= now]:
            exchange.fire()
        if self.waiting:
            self.start()

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
