"""What we say is so, ipmitool says too; and our own fake BMC passes for a real one."""

import asyncio
import hashlib
import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headnode.lab.bmc import LabBmc, simulators
from headnode.lab.chassis import ChassisService, FakeChassis
from ipmi.faults import WrongCredentials
from ipmi.fleet import Fleet, Target
from ipmi.ipmi_driver import IpmiBmc
from ipmi.readings import BootDevice, Credentials, Health, PowerAction, PowerState
from ipmi.recorder import ConsoleRecorder
from ipmi.recording import Kind, Recording, read
from ipmi.rmcp.crypto import SUITE_3, SUITE_17, Suite
from ipmi.rmcp.engine import Engine
from tests.integration.bmc_lab import PASSWORD, ipmitool, simulated
from tests.ipmi.fake_bmc import FakeBmc, serving

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("ipmi_sim"),
    pytest.mark.program("ipmitool"),
]
ADDRESS = "127.40.0.1"


@asynccontextmanager
async def connected(password: str = PASSWORD) -> AsyncIterator[IpmiBmc]:
    async with Engine("127.0.0.1") as engine:
        yield await IpmiBmc.connect(engine, ADDRESS, "admin", password, settle=4)


async def judge(*words: str, password: str = PASSWORD) -> str:
    return await asyncio.to_thread(ipmitool, ADDRESS, *words, password=password)


@pytest.mark.parametrize("suite", [SUITE_3, SUITE_17])
def test_ipmitool_takes_our_fake_for_a_bmc(suite: Suite) -> None:
    """No simulator here speaks suite 17, so the fake that tests it is judged by another client."""

    async def run() -> tuple[str, str, int]:
        bmc = FakeBmc(password=PASSWORD, suites=(suite,))
        async with serving(bmc) as port:
            said = await asyncio.to_thread(ipmitool, "127.0.0.1", "power", "status", suite=suite.number, port=port)
            wrong = await asyncio.to_thread(
                ipmitool, "127.0.0.1", "-R", "1", "power", "status", suite=suite.number, port=port, password="x"
            )
            return said, wrong, len(bmc.sessions)

    said, wrong, _ = asyncio.run(run())
    assert "Chassis Power is off" in said
    assert "Unable to establish" in wrong


def test_power_and_boot_device_are_what_ipmitool_and_the_machine_say(tmp_path: Path) -> None:
    machine = FakeChassis()

    async def run() -> None:
        async with connected() as bmc:
            await bmc.set_power(PowerAction.ON)
            assert "is on" in await judge("power", "status")
            await judge("power", "off")
            assert await bmc.power() is PowerState.OFF
            await bmc.set_boot_device(BootDevice.PXE)
            assert machine.boot == "pxe"
            await judge("chassis", "bootdev", "cdrom")
            assert (await bmc.boot_device()).device is BootDevice.CDROM
            await bmc.set_power(PowerAction.ON)
            assert await bmc.set_power(PowerAction.CYCLE) is PowerState.ON
            assert machine.history[-2:] == ["off", "on"]
            await bmc.set_power(PowerAction.RESET)
            await bmc.set_power(PowerAction.SOFT)
            assert machine.history[-2:] == ["reset", "soft"]
            await bmc.identify(30)
            assert machine.history[-1] == "identify 30"

    with simulated(tmp_path, machine):
        asyncio.run(run())


def test_a_fleet_in_one_simulator(tmp_path: Path) -> None:
    machines = {f"n{n}": FakeChassis() for n in range(1, 9)}

    async def run() -> None:
        # The simulator stops for every chassis command, and eight of them share it.
        async with Fleet("127.0.0.1", deadline=20.0) as fleet:
            for bmc in bmcs:
                await fleet.add(Target(bmc.name, bmc.address, Credentials("admin", PASSWORD)))
            names = list(machines)
            assert {o.status for o in (await fleet.power_status(names)).values()} == {"off"}
            assert {o.status async for o in fleet.ask(names[:4], lambda bmc: bmc.set_power(PowerAction.ON))} == {"on"}
            said = await fleet.power_status(names)
            assert [said[name].status for name in names] == ["on"] * 4 + ["off"] * 4
            assert [machine.on for machine in machines.values()] == [True] * 4 + [False] * 4
            assert {o.status async for o in fleet.ask(names, lambda bmc: bmc.set_power(PowerAction.OFF))} == {"off"}

    with ChassisService(tmp_path / "sock", machines) as service:
        bmcs = [
            LabBmc(name, f"127.40.3.{n}", PASSWORD, sensors=(), chassis_command=service.command(name))
            for n, name in enumerate(machines, 1)
        ]
        [simulator] = simulators(bmcs, tmp_path)
        simulator.start()
        try:
            simulator.wait_ready()
            asyncio.run(run())
        finally:
            simulator.stop()


def test_sensors_and_events_are_what_ipmitool_says(tmp_path: Path) -> None:
    async def run() -> None:
        async with connected() as bmc:
            mine = {reading.name: reading.value for reading in await bmc.sensors()}
            lines = (await judge("sensor")).splitlines()
            theirs = {line.split("|")[0].strip(): float(line.split("|")[1]) for line in lines}
            assert mine == theirs
            assert {"Inlet Temp", "CPU0 Temp", "GPU0 Temp", "FAN0", "System Power"} <= set(mine)
            await asyncio.to_thread(simulator.control, "sensor_set_value 0x20 0 3 95 1")
            hot = {reading.name: reading for reading in await bmc.sensors()}["GPU0 Temp"]
            assert (hot.value, hot.health) == (95.0, Health.CRITICAL)
            events = await bmc.event_log()
            assert [(e.source, e.health) for e in events] == [
                ("GPU0 Temp", Health.WARNING),
                ("GPU0 Temp", Health.CRITICAL),
            ]
            assert "Upper Critical going high" in await judge("sel", "elist")
            await bmc.clear_event_log()
            assert "no entries" in await judge("sel", "list")

    with simulated(tmp_path, FakeChassis()) as simulator:
        asyncio.run(run())


def test_identity_and_users(tmp_path: Path) -> None:
    async def run() -> None:
        async with connected() as bmc:
            who = await bmc.identity()
            assert (who.vendor, who.model, who.serial) == ("Headnode", "Lab machine", "SN-0815")
            assert who.guid in (await judge("mc", "guid")).lower()
            assert [(user.name, user.role) for user in await bmc.users()] == [("admin", "administrator")]
            await bmc.set_password("admin", "another-Pass-1")
            assert await bmc.power() is PowerState.OFF
            assert "is off" in await judge("power", "status", password="another-Pass-1")
        async with connected() as old:
            with pytest.raises(WrongCredentials):
                await old.power()

    with simulated(tmp_path, FakeChassis()):
        asyncio.run(run())


def test_no_password_in_arguments_or_logs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)

    async def run() -> str:
        async with connected() as bmc:
            await bmc.power()
            return await asyncio.to_thread(
                lambda: subprocess.run(["ps", "-eww", "-o", "args="], capture_output=True, text=True, check=True).stdout
            )

    with simulated(tmp_path, FakeChassis()) as simulator:
        arguments = asyncio.run(run())
        log = (simulator.directory / "log").read_text()
        readable = [path for path in simulator.directory.glob("*.*") if path.stat().st_mode & 0o077]
        seen = arguments + log + caplog.text + "".join(capfd.readouterr())
        assert not [path for path in readable if path.is_file() and PASSWORD in path.read_text(errors="replace")]
    assert PASSWORD not in seen


class Serial:
    """The machine's serial port: says what it is told to, and echoes."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.heard = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while data := await reader.read(1000):
            self.heard += data
            writer.write(b"<" + data + b">")
        writer.close()


@asynccontextmanager
async def serial_line() -> AsyncIterator[tuple[Serial, int]]:
    serial = Serial()
    server = await asyncio.start_server(serial.serve, "127.0.0.1", 0)
    try:
        yield serial, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in serial.writers:
            writer.close()
        await server.wait_closed()


async def until(condition: object, seconds: float = 10) -> None:
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def test_the_console_speaks_both_ways(tmp_path: Path) -> None:
    async def run() -> None:
        async with serial_line() as (serial, port):
            with simulated(tmp_path, FakeChassis(), serial_port=port):
                async with connected() as bmc:
                    console = await bmc.open_console()
                    text = bytes(random.Random(3).choices(range(32, 127), k=3000))
                    await console.write(text)
                    await until(lambda: len(serial.heard) == 3000)
                    assert serial.heard == text
                    back = b""
                    async with asyncio.timeout(10):
                        while len(back.replace(b"<", b"").replace(b">", b"")) < len(
                            text.replace(b"<", b"").replace(b">", b"")
                        ):
                            back += await console.read()
                    # Power commands go over the same session while the console is open.
                    assert await bmc.power() is PowerState.OFF
                    # A second opening takes it over, and its first key is not lost.
                    again = await bmc.open_console()
                    await again.write(b"first key")
                    await until(lambda: serial.heard.endswith(b"first key"))
                    await again.close()

    asyncio.run(run())


def test_a_recorder_survives_its_bmc(tmp_path: Path) -> None:
    """The BMC is killed and comes back: the recording goes on by itself, and the gap is marked."""
    recordings = tmp_path / "console"

    async def run() -> None:
        async with serial_line() as (serial, port), Engine("127.0.0.1", deadline=1.0) as engine:
            bmc = await IpmiBmc.connect(engine, ADDRESS, "admin", PASSWORD)
            recorder = ConsoleRecorder("n1", bmc.open_console, Recording(recordings))
            with simulated(tmp_path / "a", FakeChassis(), serial_port=port):
                recorder.start()
                await until(lambda: recorder.console is not None)
                await until(lambda: serial.writers)
                serial.writers[-1].write(b"before")
                await until(lambda: any(record.data == b"before" for record in read(recordings)))
            with pytest.raises(Exception, match="BMC"):
                await bmc.power()
            count = len(serial.writers)
            with simulated(tmp_path / "b", FakeChassis(), serial_port=port):
                await until(lambda: len(serial.writers) > count)
                await until(lambda: recorder.console is not None, 20)
                serial.writers[-1].write(b"after")
                await until(lambda: any(record.data == b"after" for record in read(recordings)))
                await recorder.stop()

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    asyncio.run(run())
    kinds = [record.kind for record in read(recordings)]
    assert kinds == [Kind.DATA, Kind.DEAF, Kind.HEARING, Kind.DATA]


def test_consoles_lose_no_byte(tmp_path: Path) -> None:
    """At 8 KiB/s, eight times what a 115200 baud line of a booting node averages."""
    recordings = tmp_path / "console"
    lines = [f"{n:06d} {random.Random(n).randbytes(40).hex()}\r\n".encode() for n in range(250)]

    async def run() -> None:
        async with serial_line() as (serial, port):
            with simulated(tmp_path, FakeChassis(), serial_port=port):
                async with connected() as bmc:
                    recorder = ConsoleRecorder("n1", bmc.open_console, Recording(recordings))
                    recorder.start()
                    await until(lambda: recorder.console is not None and bool(serial.writers))
                    for line in lines:
                        serial.writers[-1].write(line)
                        await asyncio.sleep(0.01)
                    await until(lambda: sum(len(r.data) for r in read(recordings)) >= sum(map(len, lines)))
                    await recorder.stop()

    asyncio.run(run())
    kept = b"".join(record.data for record in read(recordings) if record.kind is Kind.DATA)
    assert hashlib.sha256(kept).hexdigest() == hashlib.sha256(b"".join(lines)).hexdigest()


def test_wrong_user_and_wrong_password_are_told_apart(tmp_path: Path) -> None:
    async def run() -> None:
        async with Engine("127.0.0.1") as engine:
            link = await engine.link(ADDRESS, Credentials("nobody", PASSWORD))
            with pytest.raises(WrongCredentials, match="no user"):
                await IpmiBmc(link).power()
            link = await engine.link(ADDRESS, Credentials("admin", "x"))
            with pytest.raises(WrongCredentials, match="another password"):
                await IpmiBmc(link).power()

    with simulated(tmp_path, FakeChassis()):
        asyncio.run(run())
