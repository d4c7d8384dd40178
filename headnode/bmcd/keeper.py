"""Who is in the fleet: follows the inventory, and keeps a recorder and a health watch for every BMC."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from headnode.bmcd import watching
from headnode.bmcd.health import Watch
from headnode.bmcd.ledger import Ledger
from headnode.bmcd.metrics import Newest
from headnode.errors import HeadnodeError, NotFound
from headnode.log import logger
from headnode.model import Node
from headnode.nodeset import fold
from headnode.workflows import bmcs, choosing
from headnode.workflows.context import Context
from ipmi.bmc import Console
from ipmi.fleet import Fleet, Target
from ipmi.phases import Phase
from ipmi.recorder import ConsoleRecorder
from ipmi.recording import Recording

LOOK_EVERY = 1.0
MEGABYTE = 1024 * 1024


class Keeper:
    def __init__(self, context: Context, fleet: Fleet, ledger: Ledger, newest: Newest) -> None:
        self.context = context
        self.fleet = fleet
        self.ledger = ledger
        self.newest = newest
        self.recorders: dict[str, ConsoleRecorder] = {}
        self.watches: dict[str, asyncio.Task[None]] = {}
        self.nodes: dict[str, Node] = {}
        self.revision = -1
        self.refreshing = asyncio.Lock()

    async def follow(self) -> None:
        while True:
            try:
                await self.refresh()
            except HeadnodeError as error:
                logger("headnode.bmc").error("the inventory cannot be read", reason=error.message)
            await asyncio.sleep(LOOK_EVERY)

    async def refresh(self) -> None:
        """Also before a question is answered, so that a node enrolled a moment ago is known."""
        async with self.refreshing:
            revision = await asyncio.to_thread(self.context.inventory.newest)
            if revision != self.revision:
                nodes, wanted = await asyncio.to_thread(self.load)
                self.nodes = {node.name: node for node in nodes}
                await self.adopt(wanted)
                self.revision = revision

    def named(self, request: Mapping[str, Any]) -> list[Node]:
        """The nodes that a request names, by a node set or one by one."""
        if "nodeset" in request:
            return choosing.pick(self.nodes, str(request["nodeset"]))
        names = [str(name) for name in request.get("names", ())]
        if missing := [name for name in names if name not in self.nodes]:
            raise NotFound(f"not enrolled any more: {fold(missing)}")
        return [self.nodes[name] for name in names]

    def load(self) -> tuple[list[Node], list[Target]]:
        """A password that cannot be unsealed costs its own node the console, and no other."""
        nodes = self.context.inventory.nodes()
        with contextlib.suppress(HeadnodeError):
            return nodes, bmcs.targets(self.context, nodes)
        found: list[Target] = []
        sealed: list[str] = []
        for node in nodes:
            try:
                found += bmcs.targets(self.context, [node])
            except HeadnodeError as error:
                sealed.append(node.name)
                reason = error.message
        if sealed:
            logger("headnode.bmc").error("passwords cannot be unsealed", nodes=fold(sealed), reason=reason)
        return nodes, found

    async def adopt(self, wanted: list[Target]) -> None:
        for name in {*self.fleet.targets} - {target.name for target in wanted}:
            await self.drop(name)
        for target in wanted:
            await self.fleet.add(target)
            if target.name not in self.recorders:
                self.start(target.name)
        logger("headnode.bmc").info("following", bmcs=len(wanted))

    def start(self, name: str) -> None:
        paths, settings = self.context.paths, self.context.site.bmc
        keep = settings.console_megabytes * MEGABYTE
        recording = Recording(paths.consoles / name, segment_bytes=min(4 * MEGABYTE, keep // 4), keep_bytes=keep)

        def connect() -> "asyncio.Future[Console]":
            return asyncio.ensure_future(self.fleet.open_console(name))

        def phase(begun: Phase) -> None:
            self.ledger.note([watching.phase_event(name, begun, recorder.phases.shown.get(begun, b""))])

        recorder = self.recorders[name] = ConsoleRecorder(name, connect, recording, on_phase=phase)
        recorder.start()
        self.newest.of(name).console = lambda: recorder.console is not None
        watch = Watch(name, paths.sensors / name, settings, self.newest, self.ledger)
        self.watches[name] = asyncio.create_task(watch.run(self.fleet), name=f"health of {name}")

    async def drop(self, name: str) -> None:
        """Its recording stays: history outlives the node."""
        if (watch := self.watches.pop(name, None)) is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        if (recorder := self.recorders.pop(name, None)) is not None:
            await recorder.stop()
        self.newest.nodes.pop(name, None)
        await self.fleet.remove(name)

    async def stop(self) -> None:
        for watch in self.watches.values():
            watch.cancel()
        await asyncio.gather(*self.watches.values(), return_exceptions=True)
        await asyncio.gather(*(recorder.stop() for recorder in self.recorders.values()), return_exceptions=True)
