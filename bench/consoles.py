"""Do 200 recorded consoles lose a byte? Run by hand, as root: python bench/consoles.py [--consoles 200] [--seconds 30]

Each simulated node prints 1 KiB/s on its serial line; one recorder process keeps all consoles open over real BMC
simulators; with --daemon it is headnode-bmc itself, with inventory, health and events. Prints CPU and memory of that
process and compares checksums. Then the process is killed without warning, started again, and the time until every
console is heard again is measured.
"""

import argparse
import asyncio
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path

from headnode import vault
from headnode.lab.bmc import LabBmc, simulators
from headnode.paths import Paths
from headnode.workflows import enroll, init
from headnode.workflows.context import Context
from headnode.workflows.sheet import Row
from ipmi.ipmi_driver import IpmiBmc
from ipmi.recorder import ConsoleRecorder
from ipmi.recording import Kind, Recording, read
from ipmi.rmcp.engine import Engine

PASSWORD = "bench-only"
CHUNK, EVERY = 256, 0.25
PORT = 29623


def address(number: int) -> str:
    return f"127.32.{number // 200}.{number % 200 + 1}"


class Line:
    """One node's serial line: what it printed is kept as a checksum."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.printed = hashlib.sha256()
        self.bytes = 0
        self.writer: asyncio.StreamWriter | None = None
        self.text = random.Random(number).randbytes(CHUNK // 2).hex().encode()

    async def open(self) -> int:
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        return int(self.server.sockets[0].getsockname()[1])

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        with suppress(OSError, asyncio.CancelledError):
            while await reader.read(1000):
                pass

    async def print(self, seconds: float) -> None:
        await asyncio.sleep(random.random() * EVERY)
        for _ in range(round(seconds / EVERY)):
            if self.writer is not None:
                self.writer.write(self.text)
                self.printed.update(self.text)
                self.bytes += len(self.text)
            await asyncio.sleep(EVERY)


async def record(count: int, place: Path) -> None:
    """The recorder process."""
    async with Engine("127.0.0.1") as engine:
        recorders = []
        for number in range(count):
            bmc = await IpmiBmc.connect(engine, address(number), "admin", PASSWORD)
            recorders.append(ConsoleRecorder(f"n{number}", bmc.open_console, Recording(place / f"n{number}")))
        for recorder in recorders:
            recorder.start()
        while any(recorder.console is None for recorder in recorders):
            await asyncio.sleep(0.02)
        print("all connected", flush=True)
        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        await stopping.wait()
        for recorder in recorders:
            await recorder.stop()


def start_daemon(count: int, root: Path) -> tuple[subprocess.Popen[str], float]:
    """headnode-bmc for that many enrolled nodes; ready when Prometheus is told that every console is open."""
    begun = time.perf_counter()
    environment = {**os.environ, "HEADNODE_ROOT": str(root)}
    process = subprocess.Popen([sys.executable, "-m", "headnode.bmcd"], env=environment, text=True)
    while True:
        time.sleep(0.1)
        with suppress(OSError):
            lines = metrics().splitlines()
            if sum(line.startswith("headnode_console_up{") and line.endswith(" 1.0") for line in lines) == count:
                return process, time.perf_counter() - begun


def metrics() -> str:
    """By hand: scripts of this directory have names that hide the standard library's from each other."""
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def make_site(count: int, root: Path) -> None:
    given = init.Proposal("bench", "bench.test", provision_interface="hnprov0", management_interface="hnmgmt0",
                          management=IPv4Network("127.32.0.0/16"))  # fmt: skip
    init.create(Paths(root), given)
    file = Paths(root).site_file
    file.write_text(file.read_text().replace("bmc:\n", f"bmc:\n  port: {PORT}\n", 1))
    context = Context(Paths(root), "bench", "bench")
    rows = [
        Row("bench", {"name": f"n{n}", "mac": f"52:54:00:aa:00:{n & 255:02x}", "bmc": address(n), "profile": "gpu"})
        for n in range(count)
    ]
    enroll.enroll(context, rows, vault.seal(PASSWORD, context.paths.secret_key))
    context.close()


def start_recorder(count: int, place: Path) -> tuple[subprocess.Popen[str], float]:
    if place.name == "consoles":
        return start_daemon(count, place.parents[3])
    begun = time.perf_counter()
    command = [sys.executable, __file__, "--record", str(place), "--consoles", str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process, time.perf_counter() - begun


def used(process: subprocess.Popen[str]) -> tuple[float, int]:
    """CPU seconds and resident kilobytes of a process."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    status = Path(f"/proc/{process.pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return ticks / os.sysconf("SC_CLK_TCK"), int(resident.split()[1])


async def measure(count: int, seconds: float, place: Path, *, daemon: bool) -> bool:
    lines = [Line(number) for number in range(count)]
    bmcs = [
        LabBmc(f"n{n}", address(n), PASSWORD, sensors=(), serial_port=await line.open()) for n, line in enumerate(lines)
    ]
    made = simulators(bmcs, place / "sims")
    try:
        for simulator in made:
            simulator.start()
        for simulator in made:
            await asyncio.to_thread(simulator.wait_ready)
        kept = place / "console"
        if daemon:
            make_site(count, place / "root")
            kept = Paths(place / "root").consoles
        lossless = await steady(lines, seconds, kept)
        return await restarted(count, kept) and lossless
    finally:
        for simulator in made:
            simulator.stop()


async def steady(lines: list[Line], seconds: float, place: Path) -> bool:
    """All print for a while; the recorder is killed at the end, without a chance to say anything."""
    process, took = await asyncio.to_thread(start_recorder, len(lines), place)
    try:
        print(f"{len(lines)} consoles open {took:.2f} s after the recorder started", flush=True)
        cpu, _ = used(process)
        begun = time.perf_counter()
        await asyncio.gather(*(line.print(seconds) for line in lines))
        await asyncio.sleep(2)
        spent = time.perf_counter() - begun
        cpu_after, memory = used(process)
    finally:
        process.kill()
        process.wait()
    print(f"recorder: {(cpu_after - cpu) / spent:.1%} of a core, {memory / 1024:.0f} MiB")
    good = sum(matches(line, place) for line in lines)
    total = sum(line.bytes for line in lines)
    print(f"{good} of {len(lines)} recordings have every byte ({total / 1024:.0f} KiB in all)", flush=True)
    return good == len(lines)


async def restarted(count: int, place: Path) -> bool:
    process, took = await asyncio.to_thread(start_recorder, count, place)
    process.terminate()
    process.wait(20)
    marked = [any(record.kind is Kind.HEARING for record in read(place / f"n{n}")) for n in range(count)]
    print(f"killed: all heard again after {took:.2f} s (aim: 5 s), gap marked in {sum(marked)} of {count}")
    return took < 5 and all(marked)


def matches(line: Line, place: Path) -> bool:
    kept = hashlib.sha256()
    for found in read(place / f"n{line.number}"):
        if found.kind is Kind.DATA:
            kept.update(found.data)
    return kept.digest() == line.printed.digest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consoles", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--daemon", action="store_true", help="record with headnode-bmc instead of a bare recorder")
    arguments = parser.parse_args()
    if arguments.record is not None:
        asyncio.run(record(arguments.consoles, arguments.record))
        return
    with tempfile.TemporaryDirectory() as place:
        measured = measure(arguments.consoles, arguments.seconds, Path(place), daemon=arguments.daemon)
        sys.exit(not asyncio.run(measured))


if __name__ == "__main__":
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    main()
