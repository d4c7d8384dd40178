"""News as it happens: one thread looks whether anything changed, every open page is told.

A page holds a thread of the server while it waits. There are more threads than pages may wait, so that those who ask
for something are always heard; a page that finds no place asks again every few seconds instead.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headnode.errors import HeadnodeError
from headnode.inventory import Inventory
from headnode.log import logger

LOOK_EVERY = 0.25
KEEP_ALIVE = 15.0
MOST_PAGES = 240
# Beyond this a list of names says no more than "many".
MOST_NAMES = 500


@dataclass(frozen=True)
class News:
    """What changed between two looks; `many` when it is too much to name."""

    number: int
    revision: int
    event: int
    nodes: tuple[str, ...] = ()
    many: bool = False

    def __str__(self) -> str:
        said = {"revision": self.revision, "event": self.event, "nodes": list(self.nodes), "many": self.many}
        return f"id: {self.revision}-{self.event}\nevent: change\ndata: {json.dumps(said)}\n\n"


@dataclass
class Pulse:
    inventory: Inventory
    changed: threading.Condition = field(default_factory=threading.Condition)
    newest: News = News(0, 0, 0)
    pages: int = 0
    running: bool = False

    def follow(self, still: Callable[[], bool]) -> Iterator[str]:
        """Lines for one page, until it goes away or may no longer see them."""
        with self.changed:
            self.pages += 1
            seen = self.newest.number
            if not self.running:
                self.running = True
                threading.Thread(target=self.watch, name="pulse", daemon=True).start()
        try:
            yield "retry: 2000\n\n: welcome\n\n"
            while True:
                with self.changed:
                    if self.newest.number == seen:
                        self.changed.wait(KEEP_ALIVE)
                    news = self.newest
                # Asked after the wait, or who has left meanwhile would be told once more.
                if not still():
                    return
                # What was missed in between is in the next page the reader asks for anyway.
                yield ": still here\n\n" if news.number == seen else str(news)
                seen = news.number
        finally:
            with self.changed:
                self.pages -= 1

    @property
    def full(self) -> bool:
        return self.pages >= MOST_PAGES

    def watch(self) -> None:
        """Only while somebody is there."""
        before = self.look((0, 0))[0]
        while True:
            time.sleep(LOOK_EVERY)
            with self.changed:
                if self.pages == 0:
                    self.running = False
                    return
            now, names = self.look(before)
            if now != before:
                before = now
                with self.changed:
                    many = len(names) > MOST_NAMES
                    told = () if many else names
                    self.newest = News(self.newest.number + 1, now[0], now[1], told, many)
                    self.changed.notify_all()

    def look(self, before: tuple[int, int]) -> tuple[tuple[int, int], tuple[str, ...]]:
        try:
            now = self.inventory.pulse()
            names = self.inventory.touched_since(*before, limit=MOST_NAMES + 1) if before != (0, 0) != now else ()
        except HeadnodeError as error:
            # A database that is away for a moment must not end the news for the day.
            logger("headnode.web").warning("no news", reason=error.message)
            return before, ()
        return now, tuple(names)
