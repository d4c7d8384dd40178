"""Emulated machines that run: power, reset, boot order, and a console that is always recorded."""

import functools
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from headnode.errors import HeadnodeError, ProgramFailed
from headnode.lab.lab import Lab
from headnode.lab.machine import FIRST_NIC, LAST_BOOT, Accelerator, Machine, MachineFiles, qemu_argv
from headnode.lab.net import Switch
from headnode.lab.process import Process
from headnode.lab.qmp import Qmp, answers
from headnode.run import run

# What terminals act on and people do not read: colours, cursor moves, clears.
ESCAPES = re.compile(r"\x1b(\[[0-9;?=]*[A-Za-z]|[()][A-Z0-9]|[=>78cDEHM])|[\x00\x07\x0e\x0f]|\r")
TYPING = 0.05
# mov al,16; out 0xf4,al; hlt, then the mark of a boot sector: QEMU exits with 2 * 16 + 1.
TRIAL_SECTOR = bytes.fromhex("b010e6f4f4").ljust(510, b"\0") + b"\x55\xaa"
TRIAL_EXIT = 33


class RunningMachine:
    """A machine in the lab. It may be off; its disks and firmware settings stay as they are."""

    def __init__(self, lab: Lab, machine: Machine, switch: Switch, taps: Sequence[str], files: MachineFiles) -> None:
        self.machine = machine
        self.files = files
        self.taps = tuple(taps)
        self._lab = lab
        self._switch = switch
        self._process: Process | None = None
        self._read_to = 0

    def is_on(self) -> bool:
        return self._process is not None and self._process.alive

    def power_on(self, *, network_first: bool = True) -> None:
        if self.is_on():
            return
        self.power_off()
        argv = qemu_argv(replace(self.machine, network_first=network_first), self.files, self.taps, accelerator())
        self.files.qmp_socket.unlink(missing_ok=True)
        process = self._lab.start(self._switch.namespace, f"qemu-{self.machine.name}", argv)
        self._process = process
        process.wait_until(lambda: answers(self.files.qmp_socket), 15, "answer on its control socket")

    def power_off(self) -> None:
        """The power cable is pulled: nothing is flushed, nobody is asked."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def press_power_button(self) -> None:
        """Ask the operating system to shut down; it may not listen."""
        with self.qmp() as qmp:
            qmp.execute("system_powerdown")

    def reset(self) -> None:
        with self.qmp() as qmp:
            qmp.execute("system_reset")

    def boot_from_network(self, first: bool) -> None:
        """Whether the NICs come before the disks at the next reset or power cycle of the guest."""
        with self.qmp() as qmp:
            for number in range(len(self.machine.macs)):
                value = (FIRST_NIC if first else LAST_BOOT) + number
                qmp.execute("qom-set", path=f"/machine/peripheral/nic{number}", property="bootindex", value=value)

    def qmp(self) -> Qmp:
        if not self.is_on():
            raise HeadnodeError(f"the machine '{self.machine.name}' is off")
        return Qmp(self.files.qmp_socket)

    def console(self) -> str:
        """Everything the serial port ever said, as a person would read it."""
        if not self.files.console.exists():
            return ""
        return ESCAPES.sub("", self.files.console.read_text(errors="replace"))

    def wait_for(self, pattern: str, timeout: float) -> re.Match[str]:
        """Wait until the console says this; each call looks only at what came after the last find."""
        deadline = time.monotonic() + timeout
        while True:
            was_on = self.is_on()
            text = self.console()
            if found := re.compile(pattern).search(text, self._read_to):
                self._read_to = found.end()
                return found
            if not was_on or time.monotonic() > deadline:
                state = "is on" if was_on else "is off"
                raise HeadnodeError(
                    f"'{pattern}' was not seen on the console of '{self.machine.name}', which {state}; "
                    f"it ends with: {text[-1500:]}"
                )
            time.sleep(0.2)

    def type(self, text: str) -> None:
        """Type on the serial console."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as console:
            console.connect(str(self.files.console_socket))
            # A serial port takes a few characters at a time, and what it has not taken is lost when we hang up.
            for character in text:
                console.sendall(character.encode())
                time.sleep(TYPING)
            time.sleep(1.0)


@contextmanager
def plugged_in(
    lab: Lab, machine: Machine, switches: Sequence[Switch], directory: Path | None = None
) -> Iterator[RunningMachine]:
    """A machine with one NIC on each of the switches, in order; it is off until power_on()."""
    sockets = lab.directory / machine.name
    files = MachineFiles(directory or sockets, sockets)
    for needed in (files.directory, files.sockets):
        needed.mkdir(parents=True, exist_ok=True)
    _prepare(machine, files)
    with ExitStack() as stack:
        taps = []
        for _, switch in zip(machine.macs, switches, strict=True):
            taps.append(switch.add_tap(machine.name))
            stack.callback(switch.remove, taps[-1])
        running = RunningMachine(lab, machine, switches[0], taps, files)
        stack.callback(running.power_off)
        yield running


def _prepare(machine: Machine, files: MachineFiles) -> None:
    """What QEMU expects to find: empty disks, and firmware settings as delivered. Existing ones are kept."""
    template = machine.firmware.variables
    if template is not None and not files.variables.exists():
        if not template.exists():
            raise HeadnodeError(f"the UEFI firmware {template} is missing", hint="install the package 'ovmf'")
        shutil.copyfile(template, files.variables)
    for disk in machine.disks:
        if not disk.path.exists():
            with disk.path.open("wb") as new:
                new.truncate(disk.size)


@functools.cache
def accelerator() -> Accelerator:
    """KVM where a guest really runs under it: inside another machine, /dev/kvm may exist and not work."""
    works = Path("/dev/kvm").exists() and guest_runs(Accelerator.KVM)
    return Accelerator.KVM if works else Accelerator.EMULATION


def guest_runs(how: Accelerator, timeout: float = 15.0) -> bool:
    """Boot a guest of three instructions, whose only act is to end QEMU with a code of its own."""
    with tempfile.TemporaryDirectory() as directory:
        sector = Path(directory) / "trial.img"
        sector.write_bytes(TRIAL_SECTOR)
        argv = [
            "qemu-system-x86_64", "-machine", "pc", "-accel", how.value, "-cpu", how.cpu, "-m", "64M",
            "-nodefaults", "-no-user-config", "-display", "none",
            "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04",
            "-drive", f"if=ide,format=raw,file={sector}",
        ]  # fmt: skip
        try:
            return run(argv, check=False, timeout=timeout).returncode == TRIAL_EXIT
        except ProgramFailed:
            return False
