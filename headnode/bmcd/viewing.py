"""Somebody at a console: what went before, what comes now, and the keyboard if it is free."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headnode.bmcd.keeper import Keeper
from headnode.errors import NotFound
from ipmi.faults import BmcFault, ConsoleTaken
from ipmi.recorder import ConsoleRecorder, Viewer
from ipmi.recording import tail

SCROLLBACK = 64 * 1024
Type = Callable[[bytes], Awaitable[None]]


@dataclass
class Seat:
    """A place in front of a console; without the keyboard, `why_not` says why."""

    recorder: ConsoleRecorder
    viewer: Viewer
    scrollback: bytes
    type: Type | None
    why_not: str = ""


@asynccontextmanager
async def seat(
    keeper: Keeper, node: str, who: str, *, write: bool, share: bool, scrollback: int = SCROLLBACK
) -> AsyncIterator[Seat]:
    recorder = keeper.recorders.get(node)
    if recorder is None:
        raise NotFound(f"the console of '{node}' is not recorded", hint="it needs a BMC and its password")
    async with contextlib.AsyncExitStack() as stack:
        keyboard: Type | None = None
        why_not = "" if write else "you asked only to watch"
        if write:
            try:
                keyboard = await stack.enter_async_context(recorder.typing(who, share=share))
            except ConsoleTaken as taken:
                why_not = taken.message
        viewer = await stack.enter_async_context(recorder.watch())
        # Nothing may happen between these two lines, or the scrollback would lack it or show it twice.
        past = tail(recorder.recording.directory, scrollback) if scrollback else b""
        yield Seat(recorder, viewer, past, keyboard, why_not)


async def type_safely(keyboard: Type, data: bytes) -> str:
    """What went wrong, or nothing: a console that takes no input must not end the session."""
    try:
        await keyboard(data)
    except BmcFault as fault:
        return fault.message
    return ""


async def first_done(*work: Awaitable[None]) -> None:
    """Until one of these ends; the others are ended with it."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, (OSError, asyncio.CancelledError)):
            raise result
