"""Real simulators for the BMC tests: ipmi_sim and sushy-tools' emulator, each ended when its test ends."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import bcrypt

from headnode.lab.bmc import LabBmc, Simulator
from headnode.lab.chassis import ChassisService, FakeChassis
from ipmi.ipmi_driver import IpmiBmc
from ipmi.readings import Credentials
from ipmi.redfish_driver import RedfishBmc
from ipmi.rmcp.engine import Engine

PASSWORD = "canary-Zx81"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def simulated(
    directory: Path, machine: FakeChassis, address: str = "127.40.0.1", *, serial_port: int = 0
) -> Iterator[Simulator]:
    with ChassisService(directory / "chassis.sock", {"n1": machine}) as service:
        bmc = LabBmc(
            "n1",
            address,
            PASSWORD,
            chassis_command=service.command("n1"),
            serial_port=serial_port,
            serial_number="SN-0815",
        )
        simulator = Simulator("n1", [bmc], directory / "n1", control_port=free_port())
        simulator.start()
        try:
            simulator.wait_ready()
            yield simulator
        finally:
            simulator.stop()


@asynccontextmanager
async def ipmi_bmc(directory: Path, password: str = PASSWORD) -> AsyncIterator[IpmiBmc]:
    with simulated(directory, FakeChassis()) as simulator:
        async with Engine("127.0.0.1") as engine:
            yield await IpmiBmc.connect(engine, simulator.bmcs[0].address, "admin", password, settle=4)


@asynccontextmanager
async def redfish_bmc(directory: Path, password: str = PASSWORD) -> AsyncIterator[RedfishBmc]:
    port = free_port()
    passwords = directory / "htpasswd"
    passwords.write_bytes(b"admin:" + bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)) + b"\n")
    config = directory / "emulator.conf"
    state = directory / "state"
    state.mkdir(exist_ok=True)
    config.write_text(f"SUSHY_EMULATOR_AUTH_FILE = {str(passwords)!r}\nSUSHY_EMULATOR_STATE_DIR = {str(state)!r}\n")
    emulator = Path(sys.executable).with_name("sushy-emulator")
    command: list[str | Path] = [emulator, "--config", config, "-i", "127.0.0.1", "-p", str(port), "--fake"]
    with (directory / "emulator.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    bmc = RedfishBmc(
        f"http://127.0.0.1:{port}", Credentials("admin", password), settle=20
    )  # it pretends to take up to 11 s
    try:
        await listening(port)
        yield bmc
    finally:
        await bmc.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)


async def listening(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(0.05)


def ipmitool(address: str, *words: str, suite: int = 3, port: int = 623, password: str = PASSWORD) -> str:
    """The judge: somebody else's client says what the BMC is like."""
    done = subprocess.run(
        ["ipmitool", "-I", "lanplus", "-C", str(suite), "-H", address, "-p", str(port), "-U", "admin", "-E", *words],
        env={**os.environ, "IPMI_PASSWORD": password},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.stdout + done.stderr
