"""A real BMC in front of each emulated machine: OpenIPMI's ipmi_sim, configured and run for the lab."""

import contextlib
import os
import signal
import socket
import struct
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import templates
from headnode import run
from headnode.errors import HeadnodeError, InvalidInput

# IPMI's numbers for what a sensor measures, and in which unit.
TEMPERATURE, FAN, WATTS = 0x01, 0x04, 0x0B
UNITS = {TEMPERATURE: 1, FAN: 18, WATTS: 6}
# ipmi_sim's MC addresses are even bytes in real life, but it takes any; 100 to a process is what it bears.
FIRST_MC, BMCS_PER_PROCESS = 0x20, 100


@dataclass(frozen=True)
class LabSensor:
    """A sensor of one byte: its value is raw * scale. Thresholds are raw; 0 means none."""

    number: int
    name: str
    kind: int
    raw: int
    scale: int = 1
    upper_warning: int = 0
    upper_critical: int = 0
    lower_critical: int = 0

    @property
    def thresholds(self) -> tuple[int, ...]:
        """In ipmi_sim's order: upper non-recoverable, critical, non-critical, then the lower ones."""
        return (0, self.upper_critical, self.upper_warning, 0, self.lower_critical, 0)

    @property
    def threshold_mask(self) -> str:
        return "".join("1" if value else "0" for value in self.thresholds)

    @property
    def event_mask(self) -> str:
        """Which crossings are logged; the bits are those of sensor_set_event_support."""
        bits = {9: self.upper_critical, 7: self.upper_warning, 2: self.lower_critical}
        return "".join("1" if bits.get(bit) else "0" for bit in range(14, -1, -1))

    @property
    def record(self) -> bytes:
        """The full sensor data record that tells clients its name, unit and scale."""
        mask = int(self.event_mask, 2)
        # Both this mask and ipmi_sim's begin with the lowest threshold at the right.
        readable = int(self.threshold_mask, 2)
        body = struct.pack(
            "<9B3H11B5B6B5B",
            *(0x20, 0, self.number, 0x07, 1, 0x7F, 0x68, self.kind, 0x01),
            *(mask, mask, readable << 8 | readable),
            *(0x00, UNITS[self.kind], 0, 0, self.scale & 0xFF, self.scale >> 2 & 0xC0, 0, 0, 0, 0, 0),
            *(self.raw, 0, 0, 0xFF, 0, *self.thresholds, 1, 1, 0, 0, 0),
        )
        name = self.name.encode()[:16]
        body += bytes((0xC0 | len(name),)) + name
        return struct.pack("<HBBB", self.number, 0x51, 0x01, len(body)) + body


SENSORS = (
    LabSensor(1, "Inlet Temp", TEMPERATURE, 24, upper_warning=38, upper_critical=42),
    LabSensor(2, "CPU0 Temp", TEMPERATURE, 45, upper_warning=85, upper_critical=95),
    LabSensor(3, "GPU0 Temp", TEMPERATURE, 51, upper_warning=85, upper_critical=92),
    LabSensor(4, "GPU1 Temp", TEMPERATURE, 52, upper_warning=85, upper_critical=92),
    LabSensor(5, "FAN0", FAN, 80, scale=100, lower_critical=10),
    LabSensor(6, "FAN1", FAN, 81, scale=100, lower_critical=10),
    LabSensor(7, "System Power", WATTS, 30, scale=40, upper_critical=250),
)


@dataclass(frozen=True)
class LabBmc:
    """One BMC. Without a chassis command its power is only a state inside the simulator: enough for asking many.

    It can be switched on then, but off only in the first BMC of a process: ipmi_sim never notices that the
    others' `startcmd` has ended.
    """

    name: str
    address: str
    password: str
    user: str = "admin"
    port: int = 623
    mc: int = FIRST_MC
    chassis_command: str = ""
    # A TCP port of 127.0.0.1 where the machine's serial line is listening.
    serial_port: int = 0
    # ipmi_sim can keep past output, but then never pauses the serial line and drops what a full buffer cannot hold.
    history: int = 0
    # Where QEMU's ipmi-bmc-extern finds this BMC, so that the node itself sees it.
    in_band_port: int = 0
    sensors: tuple[LabSensor, ...] = SENSORS
    serial_number: str = ""

    def __post_init__(self) -> None:
        # ipmi_sim's configuration has no way to quote a quote.
        for value in (self.name, self.user, self.password, self.chassis_command):
            if '"' in value or not value.isprintable():
                raise InvalidInput(f"the lab BMC {self.name} has a quote or control character in its settings")

    @property
    def guid(self) -> str:
        return uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.bmc.lab").hex

    @property
    def fru(self) -> bytes:
        return fru_data("Headnode", "Lab machine", self.serial_number) if self.serial_number else b""


def fru_data(maker: str, product: str, serial: str) -> bytes:
    """A FRU inventory with only a product area: common header, then length-prefixed 8-bit texts."""
    fields = (maker, product, "", "", serial, "", "")
    area = bytes((1, 0, 0)) + b"".join(bytes((0xC0 | len(f),)) + f.encode() for f in fields) + b"\xc1"
    area += bytes(-(len(area) + 1) % 8)
    area = area[:1] + bytes(((len(area) + 1) // 8,)) + area[2:]
    header = bytes((1, 0, 0, 0, 1, 0, 0))
    return b"".join(part + bytes((-sum(part) & 0xFF,)) for part in (header, area))


def lan_conf(name: str, bmcs: Sequence[LabBmc], control_port: int = 0) -> str:
    made_from = f"lab BMC {name}"
    return templates.render(
        "lab/lan.conf.j2", simulator=name, bmcs=bmcs, control_port=control_port, made_from=made_from
    )


def emulation(name: str, bmcs: Sequence[LabBmc]) -> str:
    return templates.render("lab/bmc.emu.j2", bmcs=bmcs, made_from=f"lab BMC {name}")


class Process(Protocol):
    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...


class Simulator:
    """One ipmi_sim process with its BMCs; `control` says things like a failing fan at run time."""

    def __init__(self, name: str, bmcs: Sequence[LabBmc], directory: Path, *, control_port: int = 0) -> None:
        self.name = name
        self.bmcs = tuple(bmcs)
        self.directory = directory
        self.control_port = control_port
        self.process: Process | None = None

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lan, emu, state = (self.directory / part for part in ("lan.conf", "bmc.emu", "state"))
        state.mkdir(exist_ok=True)
        write_private(lan, lan_conf(self.name, self.bmcs, self.control_port))
        write_private(emu, emulation(self.name, self.bmcs))
        self.process = self.launch(["ipmi_sim", "-c", lan, "-f", emu, "-s", state, "-n"])

    def launch(self, argv: Sequence[str | Path]) -> Process:
        with (self.directory / "log").open("wb") as log:
            return run.spawn(argv, stdout=log, stderr=log, cwd=self.directory)

    def wait_ready(self, timeout: float = 10.0) -> None:
        """Until the last BMC answers a presence ping; else an error with the simulator's own words."""
        last = self.bmcs[-1]
        deadline = time.monotonic() + timeout
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.1)
            while time.monotonic() < deadline:
                if self.process is None or self.process.poll() is not None:
                    break
                with contextlib.suppress(OSError):
                    probe.sendto(b"\x06\x00\xff\x06\x00\x00\x11\xbe\x80\x00\x00\x00", (last.address, last.port))
                    probe.recv(64)
                    return
        log = self.directory / "log"
        said = log.read_text(errors="replace")[-500:] if log.exists() else ""
        self.stop()
        raise HeadnodeError(f"the simulated BMC {self.name} did not start: {said.strip() or 'no answer'}")

    def control(self, command: str) -> str:
        """A line for the simulator's own console, such as `sensor_set_value 0x20 0 1 93 1`."""
        with socket.create_connection(("127.0.0.1", self.control_port), timeout=5) as console:
            read_until(console, b"> ")
            console.sendall(command.encode() + b"\n")
            return read_until(console, b"> ").decode(errors="replace")

    def stop(self) -> None:
        """End it and what it started: with `startcmd`, powered-on machines are its children."""
        process, self.process = self.process, None
        if process is None:
            return
        for how, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                if process.poll() is not None:
                    return
                time.sleep(0.01)


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    said = b""
    while not said.endswith(mark) and (chunk := connection.recv(4096)):
        said += chunk
    return said


def write_private(path: Path, text: str) -> None:
    """The configuration holds the BMC's password."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def simulators(bmcs: Sequence[LabBmc], directory: Path) -> list[Simulator]:
    """Many BMCs in few processes; each keeps its name, and gets an MC number of its own in its process."""
    groups = [bmcs[start : start + BMCS_PER_PROCESS] for start in range(0, len(bmcs), BMCS_PER_PROCESS)]
    return [
        Simulator(
            f"bmcs{number}",
            [replace(bmc, mc=FIRST_MC + index) for index, bmc in enumerate(group)],
            directory / f"bmcs{number}",
        )
        for number, group in enumerate(groups)
    ]
