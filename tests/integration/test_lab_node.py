"""An emulated machine behind a simulated BMC, worked through Headnode's own commands and daemon, judged by ipmitool."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from headnode import bmclink, vault
from headnode.lab.lab import Lab
from headnode.lab.machine import Disk, Machine
from headnode.lab.net import Namespace
from headnode.lab.node import LabNode, lab_node
from headnode.paths import Paths
from headnode.workflows import enroll, init
from headnode.workflows.context import Context
from ipmi.recording import Kind, read
from tests.conftest import GIVEN
from tests.integration.bmc_site import CANARY, eventually
from tests.support import HEADNODE, row

pytestmark = [
    pytest.mark.integration,
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.program("ip", "ipmi_sim", "ipmitool", "qemu-system-x86_64"),
]
MAC, BMC = "52:54:00:aa:00:01", "10.21.0.11"
# A boot sector that says LABDISK ready, swaps the case of what is typed, and powers off when the button is pressed:
# it polls COM1 (0x3f8) and the ACPI power button (0x600) with interrupts off, because the firmware reads COM1 too.
GUEST = bytes.fromhex(
    "fa31c08ed88ed0bc007cfcbe637ce83700ba0206b80001efbafd03eca801740bbaf803ec3420e82900ebedba0006edf6c4017504f390ebe0"
    "be757ce80a00ba0406b80020eff4ebfdac84c07415e80200ebf688c3bafd03eca82074f888d8baf803eec30d0a4c41424449534b20726561"
    "64790d0a000d0a4c41424449534b206f66660d0a00"
)


@dataclass
class Rack:
    root: Path
    head: Namespace
    node: LabNode

    def headnode(self, *words: str) -> str:
        done = self.head.run([*HEADNODE, "--root", str(self.root), *words], check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ipmitool(self, *words: str) -> str:
        argv = ["ip", "netns", "exec", self.head.name, "ipmitool", "-I", "lanplus", "-C", "3", "-H", BMC, "-U", "admin"]
        done = subprocess.run([*argv, "-E", *words], env={**os.environ, "IPMI_PASSWORD": CANARY}, capture_output=True,
                              text=True, timeout=30, check=False)  # fmt: skip
        return done.stdout + done.stderr

    def console(self) -> str:
        """As Headnode recorded it."""
        records = read(Paths(self.root).consoles / "gpu01")
        return b"".join(record.data for record in records if record.kind is Kind.DATA).decode(errors="replace")

    def says(self, text: str, after: int, timeout: float = 60) -> None:
        eventually(lambda: text in self.console()[after:], timeout)


@contextmanager
def racked(lab: Lab, directory: Path) -> Iterator[Rack]:
    root = directory / "root"
    init.create(Paths(root), replace(GIVEN, management=IPv4Network("10.21.0.0/16")))
    context = Context(Paths(root), "tester", "a test")
    sealed = vault.seal(CANARY, context.paths.secret_key)
    enroll.enroll(context, [row(name="gpu01", mac=MAC, bmc=BMC, profile="gpu")], sealed)
    context.close()
    provision, management = lab.switch(), lab.switch("mgmt")
    head, bmcs = lab.host("head"), lab.host("bmcs")
    management.attach(head, "eth1", address="10.21.255.254/16")
    management.attach(bmcs, "eth0", address=f"{BMC}/16")
    disk = Disk(directory / "disk.img", 1 << 20, "LABDISK1")
    disk.path.write_bytes(GUEST.ljust(510, b"\0") + b"\x55\xaa" + bytes((1 << 20) - 512))
    machine = Machine("gpu01", (MAC,), memory_mib=128, disks=(disk,), serial="SN-gpu01")
    with lab_node(lab, machine, [provision], bmc_host=bmcs, bmc_address=BMC, password=CANARY) as node:
        environment = {"HEADNODE_ROOT": str(root)}
        lab.start(head, "headnode-bmc", [sys.executable, "-m", "headnode.bmcd"], env=environment)
        eventually(Paths(root).bmc_socket.exists, 20)
        yield Rack(root, head, node)


def test_everything_an_admin_would_walk_to_the_rack_for(running_lab: Lab, tmp_path: Path) -> None:
    with racked(running_lab, tmp_path) as rack:
        # Off, and everybody agrees.
        assert rack.headnode("power", "status", "gpu01") == "gpu01: off\n"
        assert "is off" in rack.ipmitool("chassis", "power", "status")
        # Power on starts it; the boot device is obeyed.
        assert rack.headnode("bootdev", "disk", "gpu01") == "gpu01: disk, once\n"
        assert rack.headnode("power", "on", "gpu01") == "gpu01: on\n"
        assert rack.node.machine.is_on()
        rack.says("LABDISK ready", 0)
        # The console in both directions.
        assert "Headnode" not in rack.console()
        with bmclink.connected(Paths(rack.root)) as connection:
            assert connection is not None
            bmclink.say(connection, {"verb": "console", "node": "gpu01", "who": "ann", "write": True})
            time.sleep(0.5)
            bmclink.say(connection, {"type": base64.b64encode(b"HelloNode").decode()})
            rack.says("hELLOnODE", 0)
        # The operating system shuts down when asked.
        assert rack.headnode("power", "soft", "gpu01", "--yes") in ("gpu01: asked to shut down\n", "gpu01: off\n")
        rack.says("LABDISK off", 0)
        eventually(lambda: not rack.node.machine.is_on())
        assert "is off" in rack.ipmitool("chassis", "power", "status")
        # From the network this time, by a power cycle of what is off.
        mark = len(rack.console())
        assert rack.headnode("bootdev", "pxe", "gpu01") == "gpu01: pxe, once\n"
        assert rack.headnode("power", "cycle", "gpu01", "--yes") == "gpu01: on\n"
        rack.says("iPXE", mark)
        assert "LABDISK" not in rack.console()[mark:]
        # And by a reset of what is on, to the disk again; ipmitool set it, so the simulator is honest.
        mark = len(rack.console())
        assert "Set Boot Device to disk" in rack.ipmitool("chassis", "bootdev", "disk")
        assert rack.headnode("power", "reset", "gpu01", "--yes") == "gpu01: on\n"
        rack.says("LABDISK ready", mark)
        # Sensors, event log.
        assert "Inlet Temp" in rack.ipmitool("sdr")
        rack.node.simulator.control("sensor_set_value 0x20 0 1 44 1")
        entries = json.loads(rack.headnode("sel", "gpu01", "-o", "json"))
        assert entries[-1]["source"] == "Inlet Temp"
        assert "Inlet Temp" in rack.ipmitool("sel", "elist")
        # A cycle of what runs, and off.
        mark = len(rack.console())
        process = rack.node.machine._process
        assert rack.headnode("power", "cycle", "gpu01", "--yes") == "gpu01: on\n"
        assert rack.node.machine._process is not process
        assert rack.headnode("power", "off", "gpu01", "--yes") == "gpu01: off\n"
        assert not rack.node.machine.is_on()
        phases = rack.headnode("events", "gpu01", "-o", "json")
        kinds = [event["data"]["phase"] for event in json.loads(phases) if event["kind"] == "console.phase"]
        assert "firmware" in kinds
        assert "pxe" in kinds
