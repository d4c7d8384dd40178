"""Many BMCs by node name: what the command line and the daemon call, with the caution in one place."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from headnode.errors import NotFound
from headnode.model import BmcDriver
from ipmi import probe
from ipmi.bmc import Bmc, Console
from ipmi.faults import BmcFault
from ipmi.ipmi_driver import IpmiBmc
from ipmi.readings import Credentials, PowerState
from ipmi.rmcp.engine import IPMI_PORT, Engine

Fact = TypeVar("Fact")
Done = TypeVar("Done")
FANOUT: Final = 256
NOW: Final[Mapping[str, float]] = {}


@dataclass(frozen=True)
class Target:
    """Where a node's BMC is; the password is unsealed only for this object's life."""

    name: str
    address: str
    credentials: Credentials
    driver: BmcDriver = BmcDriver.AUTO
    port: int = IPMI_PORT


@dataclass(frozen=True)
class Outcome(Generic[Fact]):
    """One node's answer or its fault, never both; `status` is the word that output is folded by."""

    name: str
    value: Fact | None = None
    fault: BmcFault | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.fault is None

    @property
    def status(self) -> str:
        return self.fault.status if self.fault is not None else str(self.value)


class Fleet:
    """`async with Fleet(local_address) as fleet`; BMCs are added and removed while it lives."""

    def __init__(self, local_address: str, *, window: int = 256, deadline: float = 3.0) -> None:
        self.local_address = local_address
        self.window = window
        self.deadline = deadline
        self.targets: dict[str, Target] = {}
        self.bmcs: dict[str, Bmc] = {}
        self.opening: dict[str, asyncio.Lock] = {}

    async def __aenter__(self) -> Self:
        self.engine = Engine(self.local_address, window=self.window, deadline=self.deadline)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        others = [bmc for bmc in self.bmcs.values() if not isinstance(bmc, IpmiBmc)]
        await asyncio.gather(*(bmc.close() for bmc in others), return_exceptions=True)
        await self.engine.close()

    # -- who is in it ------------------------------------------------------------------------------------

    async def add(self, target: Target) -> None:
        """Also for a changed address or password: the old session is ended, the next question uses the new."""
        if self.targets.get(target.name) != target:
            await self.remove(target.name)
            self.targets[target.name] = target

    async def remove(self, name: str) -> None:
        self.targets.pop(name, None)
        bmc = self.bmcs.pop(name, None)
        if bmc is not None:
            await bmc.close()

    async def bmc(self, name: str) -> Bmc:
        """The node's BMC, connected and probed when first needed."""
        target = self.targets.get(name)
        if target is None:
            raise NotFound(f"node '{name}' has no BMC", hint=f"headnode set {name} bmc=ADDRESS")
        if name not in self.bmcs:
            # Two questions at once must not probe, and log in, twice.
            async with self.opening.setdefault(name, asyncio.Lock()):
                if name not in self.bmcs:
                    self.bmcs[name] = await probe.connect(
                        self.engine, target.address, target.credentials, target.driver, port=target.port
                    )
        return self.bmcs[name]

    async def open_console(self, name: str) -> Console:
        """Over IPMI also when Redfish does the rest: Redfish has no serial console."""
        bmc = await self.bmc(name)
        if not isinstance(bmc, IpmiBmc):
            target = self.targets[name]
            bmc = IpmiBmc(await self.engine.link(target.address, target.credentials, port=target.port))
        return await bmc.open_console()

    # -- asking many -------------------------------------------------------------------------------------

    def ask(
        self, names: Iterable[str], question: Callable[[Bmc], Awaitable[Fact]]
    ) -> AsyncGenerator[Outcome[Fact], None]:
        """Answers as they come, for progress; a fault is an answer."""
        return each(names, lambda name: self.one(name, question))

    async def one(self, name: str, question: Callable[[Bmc], Awaitable[Fact]]) -> Outcome[Fact]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            value = await question(await self.bmc(name))
        except BmcFault as fault:
            return Outcome(name, fault=fault, seconds=loop.time() - begun)
        return Outcome(name, value, seconds=loop.time() - begun)

    async def all(self, names: Iterable[str], question: Callable[[Bmc], Awaitable[Fact]]) -> dict[str, Outcome[Fact]]:
        wanted = tuple(names)
        answers = {outcome.name: outcome async for outcome in self.ask(wanted, question)}
        return {name: answers[name] for name in wanted}

    async def power_status(self, names: Iterable[str]) -> dict[str, Outcome[PowerState]]:
        return await self.all(names, lambda bmc: bmc.power())


async def each(
    names: Iterable[str],
    work: Callable[[str], Awaitable[Done]],
    *,
    starts: Mapping[str, float] = NOW,
    fanout: int = FANOUT,
) -> AsyncGenerator[Done, None]:
    """Work on many: each at its time (seconds from now), so many at once; results as they come.

    Ending early, by Ctrl-C or because whoever asked has gone away, leaves those as they are whose turn has not come.
    """
    room = asyncio.Semaphore(fanout)

    async def one(name: str) -> Done:
        await asyncio.sleep(starts.get(name, 0.0))
        async with room:
            return await work(name)

    tasks = [asyncio.create_task(one(name)) for name in names]
    try:
        for done in asyncio.as_completed(tasks):
            yield await done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
