"""BMCs for the nodes of the Vagrant lab: an ipmi_sim for each, whose power button is virsh's or VBoxManage's.

Run as root on the machine that runs Vagrant, in a terminal of its own; Ctrl-C ends it and leaves nothing behind:
    sudo .venv/bin/python vagrant/bmcs.py libvirt --nodes 2 --password-file bmc.password
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headnode import vault
from headnode.errors import HeadnodeError
from headnode.lab.bmc import LabBmc, Simulator
from headnode.lab.chassis import ChassisService
from headnode.run import run

HOST = "192.168.56.1"
# VBoxManage knows the machines of the person who ran Vagrant, and root's are others.
PERSON = ("runuser", "--user", os.environ.get("SUDO_USER", "root"), "--")
VERBS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "libvirt": {
        "state": ("virsh", "domstate", "{}"),
        "on": ("virsh", "start", "{}"),
        "off": ("virsh", "destroy", "{}"),
        "reset": ("virsh", "reset", "{}"),
        "soft": ("virsh", "shutdown", "{}"),
    },
    "virtualbox": {
        "state": (*PERSON, "VBoxManage", "showvminfo", "{}", "--machinereadable"),
        "on": (*PERSON, "VBoxManage", "startvm", "{}", "--type", "headless"),
        "off": (*PERSON, "VBoxManage", "controlvm", "{}", "poweroff"),
        "reset": (*PERSON, "VBoxManage", "controlvm", "{}", "reset"),
        "soft": (*PERSON, "VBoxManage", "controlvm", "{}", "acpipowerbutton"),
    },
}


@dataclass
class VirtualMachine:
    """A machine's front panel. It boots from the network first, always; its boot script says what comes next."""

    provider: str
    name: str
    boot: str = "none"

    def tell(self, verb: str) -> str:
        return run([word.format(self.name) for word in VERBS[self.provider][verb]]).stdout

    def powered(self) -> bool:
        said = self.tell("state")
        return 'VMState="running"' in said or said.strip() == "running"

    def set_power(self, on: bool) -> None:
        if on is not self.powered():
            self.tell("on" if on else "off")

    def reset(self) -> None:
        self.tell("reset")

    def shut_down(self) -> None:
        self.tell("soft")

    def boot_device(self) -> str:
        return self.boot

    def set_boot_device(self, device: str) -> None:
        self.boot = device

    def identify(self, seconds: int) -> None:
        """A virtual machine has no light."""


@contextmanager
def address(at: str) -> Iterator[None]:
    """One more address on the host's side of the management network."""
    found = run(["ip", "-brief", "-4", "address", "show", "to", HOST]).stdout.split()
    if not found:
        raise HeadnodeError(f"no interface of this machine has {HOST}", hint="'vagrant up head' makes the networks")
    run(["ip", "address", "replace", f"{at}/32", "dev", found[0]])
    try:
        yield
    finally:
        run(["ip", "address", "del", f"{at}/32", "dev", found[0]], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("provider", choices=VERBS)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--password-file", type=Path, required=True, help="the BMCs' password on its first line")
    arguments = parser.parse_args()
    password = vault.read_password(arguments.password_file)
    machines = {
        f"node{n:02}": VirtualMachine(arguments.provider, f"headnode-node{n:02}") for n in range(1, arguments.nodes + 1)
    }
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = stack.enter_context(ChassisService(place / "chassis.sock", machines))
        for number, name in enumerate(machines, 1):
            at = f"192.168.56.{10 + number}"
            stack.enter_context(address(at))
            # VirtualBox puts the machine's serial line on a port; vagrant-libvirt has no way to say so.
            serial = 6230 + number if arguments.provider == "virtualbox" else 0
            bmc = LabBmc(name, at, password, chassis_command=service.command(name), serial_port=serial)
            simulator = Simulator(name, [bmc], place / name)
            stack.callback(simulator.stop)
            simulator.start()
            simulator.wait_ready()
            sys.stderr.write(f"{name}: BMC at {at}, user admin\n")
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    # Waited for, so that everything is taken down again.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        main()
    except HeadnodeError as error:
        sys.exit(f"{error.message}\n  hint: {error.hint}")
