"""A whole node: an emulated machine with a BMC of its own in front of it, cabled as in a rack."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headnode.lab.bmc import LabBmc, Simulator
from headnode.lab.bmc import Process as AnyProcess
from headnode.lab.chassis import ChassisService
from headnode.lab.inband import InBandCable, free_port
from headnode.lab.lab import Lab
from headnode.lab.machine import Machine
from headnode.lab.net import Namespace, Switch
from headnode.lab.process import Process
from headnode.lab.qemu import RunningMachine, plugged_in
from headnode.lab.serial import SerialCable

# The BMC as the machine itself finds it: a KCS interface, whose other end is ipmi_sim.
IN_BAND = (
    "-chardev socket,id=bmc,path={path},reconnect=1 -device ipmi-bmc-extern,id=bmc0,chardev=bmc "
    "-device isa-ipmi-kcs,bmc=bmc0"
)


class MachineChassis:
    """The front panel of an emulated machine, as its BMC works it.

    A boot device counts for the next start only; ipmi_sim does not pass on whether it should last. After that start the
    machine's own order counts again: network first, then disks.
    """

    def __init__(self, machine: RunningMachine) -> None:
        self.machine = machine
        self.boot = "none"
        self.light = 0
        # A button does nothing then.
        self.cord_pulled = False

    def powered(self) -> bool:
        return self.machine.is_on()

    def was_on(self) -> bool:
        """What the last order was, also when the lab was killed since."""
        return self._order.exists()

    @property
    def _order(self) -> Path:
        return self.machine.files.directory / "switched-on"

    def set_power(self, on: bool) -> None:
        self._order.touch() if on else self._order.unlink(missing_ok=True)
        if not on:
            self.machine.power_off()
        elif not self.machine.is_on() and not self.cord_pulled:
            first = self.network_first()
            self.machine.power_on(network_first=first)
            self.back_to_usual(first)

    def reset(self) -> None:
        if self.machine.is_on():
            first = self.network_first()
            self.machine.boot_from_network(first)
            self.machine.reset()
            self.back_to_usual(first)

    def network_first(self) -> bool:
        chosen, self.boot = self.boot, "none"
        return chosen != "default"

    def back_to_usual(self, first: bool) -> None:
        """For the start after this one; the order of a start is read when it begins."""
        if not first:
            self.machine.boot_from_network(True)

    def shut_down(self) -> None:
        if self.machine.is_on():
            self.machine.press_power_button()

    def boot_device(self) -> str:
        return self.boot

    def set_boot_device(self, device: str) -> None:
        self.boot = device

    def identify(self, seconds: int) -> None:
        self.light = seconds


class Recorded:
    """A process of the lab in the simulator's eyes."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self) -> int | None:
        return None if self.process.alive else 0


class LabSimulator(Simulator):
    """ipmi_sim on a host of the lab, ended with the lab even if the lab is killed."""

    def __init__(self, lab: Lab, host: Namespace, bmc: LabBmc, directory: Path, control_port: int) -> None:
        super().__init__(bmc.name, [bmc], directory, control_port=control_port)
        self.lab = lab
        self.host = host

    def launch(self, argv: Sequence[str | Path]) -> AnyProcess:
        return Recorded(self.lab.start(self.host, f"ipmi_sim-{self.name}", argv))

    def wait_ready(self, timeout: float = 10.0) -> None:
        with self.host.inside():
            super().wait_ready(timeout)

    def control(self, command: str) -> str:
        with self.host.inside():
            return super().control(command)

    def stop(self) -> None:
        process, self.process = self.process, None
        if isinstance(process, Recorded):
            process.process.stop()


@dataclass(frozen=True)
class LabNode:
    machine: RunningMachine
    chassis: MachineChassis
    bmc: LabBmc
    simulator: LabSimulator


@contextmanager
def lab_node(
    lab: Lab,
    machine: Machine,
    switches: Sequence[Switch],
    *,
    bmc_host: Namespace,
    bmc_address: str,
    password: str,
    directory: Path | None = None,
) -> Iterator[LabNode]:
    """A machine that is off and can be switched on through its BMC, which answers at an address of `bmc_host`."""
    place = lab.directory / machine.name
    in_band = place / "in-band.sock"
    machine = replace(machine, extra=(*machine.extra, *IN_BAND.format(path=in_band).split()))
    with plugged_in(lab, machine, switches, directory) as running:
        panel = MachineChassis(running)
        with (
            InBandCable(in_band, bmc_host) as inside,
            SerialCable(running.files.console, running.files.console_socket, bmc_host) as cable,
            ChassisService(place / "chassis.sock", {machine.name: panel}) as service,
        ):
            bmc = LabBmc(
                machine.name,
                bmc_address,
                password,
                chassis_command=service.command(machine.name),
                serial_port=cable.port,
                in_band_port=inside.port,
                serial_number=machine.serial or machine.name,
            )
            simulator = LabSimulator(lab, bmc_host, bmc, place / "bmc", free_port(bmc_host))
            simulator.start()
            try:
                simulator.wait_ready()
                yield LabNode(running, panel, bmc, simulator)
            finally:
                simulator.stop()
