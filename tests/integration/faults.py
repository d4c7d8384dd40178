"""Faults on real programs: DHCP, TFTP and HTTP servers, the node API, the agent's own code, the checks on the node.

Each does to one node what goes wrong on a bad day; test_faults.py asks afterwards what 'headnode why' makes of it.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headnode.lab.client import Client, replies
from headnode.lab.fetch import FetchFailed
from headnode.model import Intent
from headnode.workflows import deploy
from images.agent.errors import AgentError
from images.agent.head import Head as AgentsHead
from images.agent.plan import parse_plan
from images.agent.stream import unpack
from pxe.dhcp import Architecture
from tests.integration.boot import HEAD, Head, eventually, mac
from tests.integration.firmware import GIB, Machine, disk

RECORDED = Path(__file__).parents[1] / "images/nodecheck/recorded"
CLOCK = {"name": "clock", "ok": True, "message": "0.010 ms off, stratum 3, from 10.20.0.1", "offset_ms": 0.01}
GOOD = [{"name": "hostname", "ok": True, "message": "it is as it should be"}, CLOCK]


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    about: str
    # The rule's word for it; nothing for a node that is well.
    cause: str | None
    inject: Callable[[Machine, Path], None]
    enrolled: bool = True
    # Nothing more will be heard of it: its deadline passes.
    silent: bool = True
    architecture: Architecture = Architecture.BIOS


def begin(head: Head, name: str, number: int, *, image: str = "node@1", **columns: str) -> Machine:
    head.enroll(name, mac=mac(number), **columns)
    deploy.begin(head.context, [name], Intent.DEPLOY, image=image)
    return Machine(head, name, mac(number))


def nothing(machine: Machine, place: Path) -> None:
    """It is never heard of."""


def unknown(machine: Machine, place: Path) -> None:
    with machine.head.nodes.inside():
        assert replies("eth0", Client("52:54:00:77:00:01", Architecture.BIOS), 2) == []
    eventually(lambda: "52:54:00:77:00:01" in machine.head.seen())


def typo(machine: Machine, place: Path) -> None:
    """The machine's real address differs in one digit from what was enrolled."""
    real = machine.mac.replace("aa", "a8")
    with machine.head.nodes.inside():
        assert replies("eth0", Client(real, Architecture.BIOS), 2) == []
    eventually(lambda: real in machine.head.seen())


def ignored(machine: Machine, place: Path) -> None:
    """Its entry has gone from the file that the DHCP server reads."""
    hosts = machine.head.paths.runtime / "dnsmasq/provision.hosts"
    lines = hosts.read_text().splitlines(keepends=True)
    hosts.write_text("".join(line for line in lines if machine.mac not in line))
    machine.head.signal("dnsmasq", signal.SIGHUP)
    with machine.head.nodes.inside():
        replies("eth0", Client(machine.mac, Architecture.BIOS), 3)
    eventually(lambda: machine.head.events(machine.name, "dhcp.ignored"))


def firewall(head: Head, address: str, what: str) -> None:
    head.host.run(["nft", "add", "table", "ip", "fault"])
    head.host.run(["nft", "add", "chain", "ip", "fault", "in", "{ type filter hook input priority 0 ; }"])
    head.host.run(["nft", "add", "rule", "ip", "fault", "in", "ip", "saddr", address, *what.split(), "drop"])


def no_tftp(machine: Machine, place: Path) -> None:
    firewall(machine.head, machine.address, "udp dport 69")
    machine.dhcp()
    with pytest.raises(FetchFailed):
        machine.tftp(timeout=2)


def no_file(machine: Machine, place: Path) -> None:
    """A boot program that this head node does not have."""
    machine.dhcp()
    with pytest.raises(FetchFailed, match=r"not found|could not"):
        machine.tftp("nowhere.efi", timeout=3)


def no_http(machine: Machine, place: Path) -> None:
    firewall(machine.head, machine.address, "tcp dport 80")
    machine.first_stage()


def wrong_machine(machine: Machine, place: Path) -> None:
    """Its profile is for ARM; the machine is not."""
    machine.head.set(machine.name, architecture="aarch64")
    machine.dhcp()
    assert machine.get("/boot") == 200


def no_ramdisk(machine: Machine, place: Path) -> None:
    machine.first_stage()
    machine.get("/boot")
    away = machine.head.paths.state / "ramdisk/x86_64"
    away.rename(away.with_name("away"))
    assert machine.get("/ramdisk/x86_64/vmlinuz") == 404
    away.with_name("away").rename(away)


def no_agent(machine: Machine, place: Path) -> None:
    machine.ramdisk()


def forged(machine: Machine, place: Path) -> None:
    machine.ramdisk()
    assert machine.say("POST", "/node/v1/claim", {"token": "guessed"})[0] == 404


def planned(disks: list[dict[str, Any]], status: int = 409) -> Callable[[Machine, Path], None]:
    def inject(machine: Machine, place: Path) -> None:
        machine.facts["disks"] = disks
        machine.ramdisk()
        machine.claim()
        machine.inventory()
        assert machine.plan()[0] == status

    return inject


PAYROLL = {"device": "/dev/vda1", "start": 1 << 20, "size": 10 * GIB, "type": "ext4", "label": "payroll", "uuid": "0b",
           "partuuid": "11111111-2222-3333-4444-555555555555"}  # fmt: skip


def streamed(machine: Machine, target: Path) -> str:
    """The agent's own code fetches and unpacks the image; what it says when that fails."""
    machine.ramdisk()
    machine.claim()
    machine.inventory()
    plan = parse_plan(machine.plan()[1])
    step = next(step for step in plan.steps if step.do == "image")
    with machine.head.nodes.inside():
        try:
            unpack(
                AgentsHead(f"http://{HEAD}", patience=2), dataclasses.replace(step, target=str(target)), lambda _: None
            )
        except AgentError as error:
            return str(error)
    raise AssertionError("the image was unpacked")


def damaged(machine: Machine, place: Path) -> None:
    file = machine.head.paths.state / "images/bad@1/image.tar.zst"
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(content)
    target = place / "damaged"
    target.mkdir()
    machine.failed("stream the image", streamed(machine, target))


def full(machine: Machine, place: Path) -> None:
    target = place / "small"
    target.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", target], check=True)
    try:
        machine.failed("stream the image", streamed(machine, target))
    finally:
        subprocess.run(["umount", target], check=True)


def no_loader(machine: Machine, place: Path) -> None:
    """The real program, on a target that has no boot loader."""
    machine.ramdisk()
    machine.claim()
    machine.inventory()
    argv = ["grub-install", "--target=i386-none", "--boot-directory", "/nonexistent", "/dev/null"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    words = " / ".join(said.stderr.strip().splitlines()[-2:])
    machine.failed("boot loader", f"'{' '.join(argv)}' failed with exit code {said.returncode}: {words}")


def hung(machine: Machine, place: Path) -> None:
    machine.ramdisk()
    machine.claim()
    machine.inventory()
    machine.step(1, "partition vda")


def restless(machine: Machine, place: Path) -> None:
    """It loses its power again and again."""
    for _ in range(deploy.MOST_CLAIMS):
        machine.ramdisk()
        machine.claim()
    with pytest.raises(AssertionError):
        machine.claim()


def looping(machine: Machine, place: Path) -> None:
    machine.installed()
    for _ in range(3):
        # The same within a few seconds is one event.
        time.sleep(5.2)
        machine.first_stage()
        assert machine.get("/boot") == 200


def never_reports(machine: Machine, place: Path) -> None:
    machine.installed()
    machine.first_stage()
    assert machine.get("/boot") == 200


def node_says(expected: dict[str, Any], programs: dict[str, str]) -> Callable[[Machine, Path], None]:
    """The checks as they run on a node, with programs that say what was recorded elsewhere."""

    def inject(machine: Machine, place: Path) -> None:
        token = machine.installed()
        directory = place / f"bin-{machine.name}"
        directory.mkdir()
        for name, recorded in programs.items():
            script = directory / name
            script.write_text(f"#!/bin/sh\ncat {RECORDED / recorded}\n")
            script.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-m", "images.nodecheck"], input=json.dumps(expected), capture_output=True, text=True,
            env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}, check=True,
        )  # fmt: skip
        assert machine.report(token, [*GOOD, *json.loads(done.stdout)]) == "failed"

    return inject


def wrong_name(machine: Machine, place: Path) -> None:
    token = machine.installed()
    checks = [{"name": "hostname", "ok": False, "message": "it is localhost"}, CLOCK]
    assert machine.report(token, checks) == "failed"


def healthy(machine: Machine, place: Path) -> None:
    token = machine.installed()
    assert machine.report(token, GOOD) == "up"


def under_way(machine: Machine, place: Path) -> None:
    machine.ramdisk()
    machine.claim()


def aborted(machine: Machine, place: Path) -> None:
    machine.head.headnode("abort", machine.name, "--yes")


GPUS = {"gpu_count": 8, "driver": True}
BUS = {"lspci": "lspci-8.txt"}
FAULTS = (
    Fault("not-enrolled", "nobody enrolled it; its machine asks for an address", "not-enrolled", unknown,
          enrolled=False),
    Fault("mac-typo", "one digit of its MAC is wrong", "mac-typo", typo),
    Fault("no-dhcp", "deployed, and never switched on", "no-dhcp", nothing),
    Fault("dhcp-refused", "its entry vanished from the DHCP server's file", "dhcp-refused", ignored),
    Fault("no-loader", "a firewall on the head node drops TFTP", "no-loader", no_tftp),
    Fault("tftp-failed", "its firmware asks for a boot program that is not there", "tftp-failed", no_file),
    Fault("no-http", "a firewall on the head node drops HTTP", "no-http", no_http),
    Fault("wrong-architecture", "an ARM profile for an x86 machine", "wrong-architecture", wrong_machine,
          architecture=Architecture.UEFI_X64),
    Fault("ramdisk-missing", "no ramdisk was built", "ramdisk-missing", no_ramdisk),
    Fault("no-agent", "kernel and ramdisk fetched, then silence", "no-agent", no_agent),
    Fault("token-refused", "the agent shows a token that is not its own", "token-refused", forged),
    Fault("disk-not-found", "a machine without disks", "disk-not-found", planned([]), silent=False),
    Fault("disk-ambiguous", "two disks fit a layout that means one", "disk-ambiguous",
          planned([disk(), disk("vdb", serial="D2")]), silent=False),
    Fault("disk-too-small", "a disk of 4 GiB for a layout that needs 8", "disk-too-small",
          planned([disk(size=4 * GIB)]), silent=False),
    Fault("disk-foreign", "the disk holds somebody's file system", "disk-foreign",
          planned([disk(holds=[PAYROLL])]), silent=False),
    Fault("image-damaged", "one byte of the image on the head node is another", "image-damaged", damaged, silent=False),
    Fault("no-space", "the image is unpacked into a file system of 1 MiB", "no-space", full, silent=False),
    Fault("boot-loader", "grub-install fails", "boot-loader", no_loader, silent=False),
    Fault("agent-silent", "the agent stops in the middle", "agent-silent", hung),
    Fault("power-cycling", "the machine restarts by itself, again and again", "power-cycling", restless, silent=False),
    Fault("boot-loop", "after the work it comes back to the network each time", "boot-loop", looping),
    Fault("no-report", "installed, and not heard of again", "no-report", never_reports),
    Fault("gpu-bar", "no room in the address space for a GPU", "gpu-bar",
          node_says(GPUS, {"lspci": "lspci-unassigned.txt", "nvidia-smi": "smi-7-of-8.xml"}), silent=False),
    Fault("gpu-fell-off", "a GPU falls off the bus", "gpu-fell-off",
          node_says(GPUS, {"lspci": "lspci-rev-ff.txt", "nvidia-smi": "smi-7-of-8.xml", "dmesg": "dmesg-xid79.txt"}),
          silent=False),
    Fault("gpu-count", "seven GPUs of eight", "gpu-count",
          node_says(GPUS, {"lspci": "lspci-7.txt", "nvidia-smi": "smi-7-of-8.xml"}), silent=False),
    Fault("gpu-versions", "Fabric Manager is older than the driver", "gpu-versions",
          node_says(GPUS, {**BUS, "nvidia-smi": "smi-8.xml", "nv-fabricmanager": "fabricmanager-old.txt"}),
          silent=False),
    Fault("link-wrong", "an InfiniBand port is down", "link-wrong",
          node_says({"infiniband_ports": 2, "infiniband_rate": 400}, {"ibstat": "ibstat-one-down.txt"}), silent=False),
    Fault("check-failed", "the installed system has another name", "check-failed", wrong_name, silent=False),
    Fault("aborted", "somebody stops it", "aborted", aborted, silent=False),
    Fault("healthy", "nothing", None, healthy, silent=False),
    Fault("under-way", "nothing; the agent has just begun", None, under_way, silent=False),
)  # fmt: skip
