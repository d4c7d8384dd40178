"""One contract for every driver: the same story, told to an IPMI and to a Redfish BMC."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from ipmi.bmc import Bmc
from ipmi.faults import BmcFault, Unreachable, Unsupported, WrongCredentials
from ipmi.readings import BootDevice, Credentials, PowerAction, PowerState
from ipmi.redfish_driver import RedfishBmc
from ipmi.rmcp.engine import Engine
from tests.integration.bmc_lab import ipmi_bmc, redfish_bmc

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ipmi_sim")]

Open = Callable[..., AbstractAsyncContextManager[Bmc]]
DRIVERS = [pytest.param(ipmi_bmc, id="ipmi"), pytest.param(redfish_bmc, id="redfish")]


def tell(open_bmc: Open, directory: Path, story: Callable[[Bmc], Awaitable[None]], **options: str) -> None:
    async def run() -> None:
        async with open_bmc(directory, **options) as bmc:
            await story(bmc)

    asyncio.run(run())


@pytest.mark.parametrize("open_bmc", DRIVERS)
class TestContract:
    def test_power(self, open_bmc: Open, tmp_path: Path) -> None:
        async def story(bmc: Bmc) -> None:
            assert await bmc.power() is PowerState.OFF
            assert await bmc.set_power(PowerAction.CYCLE) is PowerState.ON, "a cycle starts what is off"
            assert await bmc.power() is PowerState.ON
            assert await bmc.set_power(PowerAction.ON) is PowerState.ON, "on twice is no fault"
            await bmc.set_power(PowerAction.RESET)
            assert await bmc.set_power(PowerAction.OFF) is PowerState.OFF
            assert await bmc.set_power(PowerAction.OFF) is PowerState.OFF
            assert await bmc.set_power(PowerAction.ON) is PowerState.ON

        tell(open_bmc, tmp_path, story)

    def test_soft(self, open_bmc: Open, tmp_path: Path) -> None:
        async def story(bmc: Bmc) -> None:
            await bmc.set_power(PowerAction.ON)
            await bmc.set_power(PowerAction.SOFT)
            async with asyncio.timeout(15):
                while await bmc.power() is PowerState.ON:
                    await asyncio.sleep(0.2)

        tell(open_bmc, tmp_path, story)

    def test_boot_device(self, open_bmc: Open, tmp_path: Path) -> None:
        async def story(bmc: Bmc) -> None:
            for device in (BootDevice.PXE, BootDevice.DISK, BootDevice.CDROM, BootDevice.PXE):
                await bmc.set_boot_device(device)
                assert (await bmc.boot_device()).device is device

        tell(open_bmc, tmp_path, story)

    def test_identity(self, open_bmc: Open, tmp_path: Path) -> None:
        async def story(bmc: Bmc) -> None:
            who = await bmc.identity()
            assert who.driver in ("ipmi", "redfish")
            assert who.guid
            assert who.vendor

        tell(open_bmc, tmp_path, story)

    def test_sensors_have_names_and_units(self, open_bmc: Open, tmp_path: Path) -> None:
        async def story(bmc: Bmc) -> None:
            readings = await bmc.sensors()
            assert readings
            assert all(reading.name and reading.unit for reading in readings)
            assert any(reading.unit == "°C" and reading.value is not None for reading in readings)

        tell(open_bmc, tmp_path, story)

    def test_identify_works_or_is_unsupported(self, open_bmc: Open, tmp_path: Path) -> None:
        async def story(bmc: Bmc) -> None:
            try:
                await bmc.identify(10)
                await bmc.identify(0)
            except Unsupported:
                assert open_bmc is redfish_bmc, "the simulated IPMI BMC has a light"

        tell(open_bmc, tmp_path, story)

    def test_event_log_works_or_is_unsupported(self, open_bmc: Open, tmp_path: Path) -> None:
        async def story(bmc: Bmc) -> None:
            try:
                await bmc.clear_event_log()
                assert await bmc.event_log() == ()
            except Unsupported:
                assert open_bmc is redfish_bmc, "the simulated IPMI BMC has an event log"

        tell(open_bmc, tmp_path, story)

    def test_wrong_password(self, open_bmc: Open, tmp_path: Path) -> None:
        async def story(bmc: Bmc) -> None:
            with pytest.raises(WrongCredentials):
                await bmc.power()

        tell(open_bmc, tmp_path, story, password="not it")


def test_a_redfish_service_that_is_not_there() -> None:
    async def run() -> None:
        bmc = RedfishBmc("http://127.0.0.1:9", Credentials("admin", "x"), deadline=3)
        with pytest.raises(Unreachable):
            await bmc.power()

    asyncio.run(run())


def test_redfish_comes_from_the_management_address_and_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    guests: list[str] = []

    async def guest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guests.append(writer.get_extra_info("peername")[0])
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(guest, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            at = f"http://127.0.0.1:{port}"
            bmc = RedfishBmc(at, Credentials("admin", "x"), deadline=5, local_address="127.0.0.77")
            with pytest.raises(BmcFault):
                await bmc.power()

    asyncio.run(run())
    assert set(guests) == {"127.0.0.77"}


def test_redfish_has_no_console() -> None:
    async def run() -> None:
        with pytest.raises(Unsupported, match="no serial console"):
            await RedfishBmc("http://127.0.0.1:9", Credentials("admin", "x")).open_console()

    asyncio.run(run())


def test_the_engine_uses_only_the_address_it_was_given() -> None:
    async def run() -> str:
        async with Engine("127.0.0.77") as engine:
            return str(engine.socket.socket.getsockname()[0])

    assert asyncio.run(run()) == "127.0.0.77"
