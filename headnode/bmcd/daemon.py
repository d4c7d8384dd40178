"""The life of headnode-bmc. All it knows is in files and the database: killing it at any moment loses nothing."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

from headnode import sitefile, vault
from headnode.bmcd.door import Door
from headnode.bmcd.keeper import Keeper
from headnode.bmcd.ledger import Ledger
from headnode.bmcd.metrics import Newest
from headnode.bmcd.tickets import Tickets
from headnode.bmcd.web import Web
from headnode.errors import HeadnodeError
from headnode.log import configure, logger
from headnode.paths import Paths
from headnode.supervisor import notify
from headnode.workflows import bmcs
from headnode.workflows.context import Context
from ipmi.fleet import Fleet

TRY_AGAIN = 2.0


async def serve(context: Context) -> None:
    """Until a signal says stop, or site.yaml has changed: then whoever supervises this starts it anew."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    newest, tickets = Newest(), Tickets()
    door = Door(context.paths.bmc_socket, tickets)
    async with contextlib.AsyncExitStack() as stack:
        server = await door.open()
        stack.push_async_callback(close, server)
        notify("READY=1")
        work = asyncio.create_task(run(context, door, newest, tickets))
        over = [asyncio.create_task(wait) for wait in (stop.wait(), site_changed(context))]
        await asyncio.wait([work, *over], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        for task in (work, *over):
            task.cancel()
        await asyncio.gather(work, *over, return_exceptions=True)
    context.paths.bmc_socket.unlink(missing_ok=True)


async def close(server: asyncio.Server) -> None:
    server.close()


async def run(context: Context, door: Door, newest: Newest, tickets: Tickets) -> None:
    ledger = Ledger(context)
    async with fleet_at(context, door) as fleet:
        keeper = Keeper(context, fleet, ledger, newest)
        door.keeper = keeper
        try:
            web = Web(door, tickets, newest)
            await asyncio.gather(keeper.follow(), ledger.run(), serve_web(web, context.site.bmc.port))
        finally:
            door.keeper = None
            await keeper.stop()
            await ledger.write()


async def serve_web(web: Web, port: int) -> None:
    """A port that somebody else has must not cost the consoles and the power button."""
    while True:
        try:
            async with await web.open(port) as server:
                await server.serve_forever()
        except OSError as error:
            logger("headnode.bmc").error("no metrics, no consoles in the browser", port=port, reason=error.strerror)
        await asyncio.sleep(TRY_AGAIN)


@contextlib.asynccontextmanager
async def fleet_at(context: Context, door: Door) -> AsyncIterator[Fleet]:
    """A fleet that speaks from the management network's address; waits for it, as cables and VLANs may come later."""
    address = bmcs.local_address(context.site)
    async with contextlib.AsyncExitStack() as stack:
        while True:
            try:
                fleet = await stack.enter_async_context(Fleet(address))
                break
            except OSError as error:
                door.why_not = f"the head node's address {address} on the management network: {error.strerror}"
                logger("headnode.bmc").warning("waiting", reason=door.why_not)
                await asyncio.sleep(TRY_AGAIN)
        yield fleet


async def site_changed(context: Context) -> None:
    """Returns when site.yaml is another one than at the start, and a good one."""
    file = context.paths.site_file
    before = file.read_bytes()
    while True:
        await asyncio.sleep(TRY_AGAIN)
        with contextlib.suppress(OSError, HeadnodeError):
            if file.read_bytes() != before and sitefile.load(file) != context.site:
                logger("headnode.bmc").info("site.yaml has changed; starting anew")
                return


def main() -> None:
    configure()
    vault.leave_no_core()
    context = Context(Paths.from_environment(), actor="headnode-bmc", cause="watching the BMC")
    try:
        asyncio.run(serve(context))
    finally:
        context.close()
