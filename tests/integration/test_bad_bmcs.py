"""Bad BMCs among good ones: each gets its own clear status, and nobody else waits for them."""

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from headnode.lab.bmc import LabBmc, Simulator, simulators
from headnode.lab.chassis import ChassisService, FakeChassis
from ipmi.faults import BmcFault, NoFreeSession, SaidYesDidNothing, TimedOut, Unreachable, WrongCredentials
from ipmi.ipmi_driver import IpmiBmc
from ipmi.readings import Credentials, PowerAction, PowerState
from ipmi.rmcp import handshake, packet
from ipmi.rmcp.engine import Engine
from ipmi.rmcp.packet import Payload
from tests.integration.bmc_lab import PASSWORD

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ipmi_sim")]

ADMIN = Credentials("admin", PASSWORD)
GOOD = [f"127.41.0.{n}" for n in range(1, 41)]
Address = tuple[str, int]


@dataclass
class BadWire(asyncio.DatagramProtocol):
    """A UDP proxy in front of a good BMC that makes it a bad one."""

    drop: float = 0.0
    delay: float = 0.0
    one_session: bool = False
    client: Address = ("", 0)
    holder: bytes = b""
    behind: asyncio.DatagramTransport = field(init=False)
    transport: asyncio.DatagramTransport = field(init=False)
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        return

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.client = addr
        if self.lost() or self.refused(data):
            return
        self.behind.sendto(data)

    def refused(self, data: bytes) -> bool:
        """With one session only, a second console is told that there is no room."""
        if not self.one_session or data[5] & 0x3F != Payload.OPEN_SESSION_REQUEST:
            return False
        console = data[20:24]
        if not self.holder:
            self.holder = console
        if self.holder == console:
            return False
        answer = bytes((data[16], handshake.NO_RESOURCES, 0, 0)) + console
        self.transport.sendto(packet.plain(Payload.OPEN_SESSION_RESPONSE, answer), self.client)
        return True

    def answered(self, data: bytes) -> None:
        if not self.lost():
            asyncio.get_running_loop().call_later(self.delay, self.transport.sendto, data, self.client)

    def lost(self) -> bool:
        return self.chance.random() < self.drop


class Behind(asyncio.DatagramProtocol):
    def __init__(self, wire: BadWire) -> None:
        self.wire = wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.wire.behind = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.wire.answered(data)


@asynccontextmanager
async def wired(wire: BadWire, front: str, behind: str) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    inner, _ = await loop.create_datagram_endpoint(lambda: Behind(wire), remote_addr=(behind, 623))
    outer, _ = await loop.create_datagram_endpoint(lambda: wire, local_addr=(front, 623))
    try:
        yield
    finally:
        outer.close()
        inner.close()
        await asyncio.sleep(0)


@contextmanager
def started(made: Sequence[Simulator]) -> Iterator[None]:
    try:
        for simulator in made:
            simulator.start()
        for simulator in made:
            simulator.wait_ready()
        yield
    finally:
        for simulator in made:
            simulator.stop()


def good_bmcs(directory: Path) -> list[Simulator]:
    return simulators([LabBmc(f"n{i}", address, PASSWORD, sensors=()) for i, address in enumerate(GOOD)], directory)


async def status(bmc: IpmiBmc) -> tuple[str, float]:
    begun = time.monotonic()
    try:
        said = str(await bmc.power())
    except BmcFault as fault:
        said = fault.status
    return said, time.monotonic() - begun


async def slowest_good(engine: Engine, bad: Sequence[str]) -> float:
    """How long the slowest good BMC takes, cold, while the bad ones are asked too."""
    good = [IpmiBmc(await engine.link(address, ADMIN)) for address in GOOD]
    asked = [asyncio.create_task(status(IpmiBmc(await engine.link(address, ADMIN)))) for address in bad]
    await asyncio.sleep(0)
    answers = await asyncio.gather(*map(status, good))
    assert {said for said, _ in answers} == {"off"}
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    return max(took for _, took in answers)


def test_the_others_do_not_wait(tmp_path: Path) -> None:
    """Against runs without the bad ones: the slowest good answer may differ by noise, not by a bad BMC's deadline."""
    silent = [f"127.41.9.{n}" for n in range(1, 21)]

    async def run() -> tuple[float, float]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(wired(BadWire(drop=0.3), "127.41.1.1", GOOD[0]))
            await stack.enter_async_context(wired(BadWire(delay=8), "127.41.1.2", GOOD[1]))
            bad = ["127.41.1.1", "127.41.1.2", *silent]
            without, among = [], []
            for _ in range(5):
                async with Engine("127.0.0.1") as engine:
                    without.append(await slowest_good(engine, ()))
                async with Engine("127.0.0.1") as engine:
                    among.append(await slowest_good(engine, bad))
            return statistics.median(without), statistics.median(among)

    with started(good_bmcs(tmp_path)):
        without, among = asyncio.run(run())
    assert among < 3 * without + 0.1, f"{without * 1000:.0f} ms alone, {among * 1000:.0f} ms among bad ones"
    assert among < 1.0


def test_each_gets_its_own_status(tmp_path: Path) -> None:
    async def run() -> dict[str, tuple[str, float]]:
        async with AsyncExitStack() as stack:
            lossy, slow, single = BadWire(drop=0.3), BadWire(delay=8), BadWire(one_session=True, holder=b"them")
            for number, wire in enumerate((lossy, slow, single), 1):
                await stack.enter_async_context(wired(wire, f"127.41.1.{number}", GOOD[number]))
            engine = await stack.enter_async_context(Engine("127.0.0.1"))
            asked = {
                "good": IpmiBmc(await engine.link(GOOD[0], ADMIN)),
                "lossy": IpmiBmc(await engine.link("127.41.1.1", ADMIN)),
                "slow": IpmiBmc(await engine.link("127.41.1.2", ADMIN)),
                "single": IpmiBmc(await engine.link("127.41.1.3", ADMIN)),
                "wrong": IpmiBmc(await engine.link(GOOD[5], Credentials("admin", "not it"))),
                "silent": IpmiBmc(await engine.link("127.41.9.1", ADMIN)),
            }
            first = dict(zip(asked, await asyncio.gather(*map(status, asked.values())), strict=True))
            # The slow one is told from a silent one when its late answers have come in.
            await asyncio.sleep(8.2 - 3.0)
            asked["slow"].link.forgive()
            first["slow, asked again"] = await status(asked["slow"])
            return first

    with started(good_bmcs(tmp_path)):
        said = asyncio.run(run())
    words = {name: word for name, (word, _) in said.items()}
    assert words.pop("lossy") in ("off", TimedOut.status)
    assert words == {
        "good": "off",
        "slow": Unreachable.status,
        "slow, asked again": TimedOut.status,
        "single": NoFreeSession.status,
        "wrong": WrongCredentials.status,
        "silent": Unreachable.status,
    }
    assert all(took < 3.5 for _, took in said.values())
    assert said["wrong"][1] < 1.0
    assert said["single"][1] < 1.0


def test_a_single_session_is_enough_for_us(tmp_path: Path) -> None:
    async def run() -> None:
        async with wired(BadWire(one_session=True), "127.41.1.1", GOOD[0]), Engine("127.0.0.1") as engine:
            bmc = IpmiBmc(await engine.link("127.41.1.1", ADMIN))
            # The proxy knows one console id: the suite we tried first is refused by the simulator, not by it.
            bmc.link.suites = bmc.link.suites[-1:]
            for _ in range(20):
                assert await bmc.power() is PowerState.OFF

    with started(good_bmcs(tmp_path)):
        asyncio.run(run())


def test_accepts_power_on_and_does_nothing(tmp_path: Path) -> None:
    machine = FakeChassis(stuck=True)

    async def run() -> None:
        async with Engine("127.0.0.1") as engine:
            bmc = await IpmiBmc.connect(engine, "127.41.2.1", "admin", PASSWORD, settle=1)
            with pytest.raises(SaidYesDidNothing):
                await bmc.set_power(PowerAction.ON)

    with ChassisService(tmp_path / "sock", {"n1": machine}) as service:
        liar = LabBmc("n1", "127.41.2.1", PASSWORD, chassis_command=service.command("n1"))
        with started([Simulator("n1", [liar], tmp_path / "n1")]):
            asyncio.run(run())
    assert machine.history == ["on"]
