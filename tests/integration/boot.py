"""A head node with its real services in a lab, as the tests of the boot plane use it."""

import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from headnode.control import ask
from headnode.lab.lab import Lab
from headnode.lab.net import Namespace, Switch
from headnode.lab.process import Process, wait_for
from headnode.model import Event, Intent, Sighting
from headnode.paths import Paths
from headnode.run import Completed, run
from headnode.services import pid_in
from headnode.workflows import discovery, enroll, nodes, publishing, sheet
from headnode.workflows.context import Context

HEAD, NODES = "10.20.0.1", 24
SITE = """\
cluster: demo
domain: demo.lan
networks:
  provision:
    cidr: 10.20.0.0/16
    interface: eth0
    head: 10.20.0.1
    node_range: 10.20.1.0-10.20.200.255
    discovery_range: 10.20.254.0-10.20.254.63
  management:
    cidr: 10.21.0.0/16
    interface: eth1
    head: 10.21.255.254
    dhcp: true
boot: {probe_seconds: 5}
profiles:
  gpu: {}
"""


def mac(number: int) -> str:
    return f"52:54:00:aa:{number >> 8:02x}:{number & 255:02x}"


@dataclass
class Head:
    """One head node: its wires, its directory, and what runs."""

    lab: Lab
    root: Path
    host: Namespace
    wire: Switch
    management: Switch
    office: Switch
    nodes: Namespace
    process: Process | None = None

    @property
    def paths(self) -> Paths:
        return Paths(self.root)

    def headnode(self, *words: str, check: bool = True) -> Completed:
        argv = [sys.executable, "-m", "headnode", "--root", str(self.root), *words]
        return self.host.run(argv, check=check, timeout=120)

    @cached_property
    def context(self) -> Context:
        """The same inventory, read and written from here: a command takes a second to start."""
        return Context(self.paths, actor="test", cause="test")

    def address(self, name: str) -> str:
        node = self.context.inventory.node(name)
        assert node is not None
        return str(node.address)

    def enroll(self, name: str, **columns: str) -> str:
        """Enrol and publish; its address."""
        rows = sheet.expand({"name": name, "profile": "gpu", **columns}, "test")
        made = enroll.enroll(self.context, rows)
        assert made.problems == []
        publishing.publish_changes(self.context)
        return self.address(rows[0].values["name"])

    def set(self, name: str, **fields: str) -> None:
        nodes.set_fields(self.context, [name], fields)
        publishing.publish_changes(self.context)

    def tell(self, name: str, intent: Intent) -> None:
        """What it is to do at its next boot."""
        with self.context.inventory.change("test", "test") as change:
            change.replace([replace(node, intent=intent) for node in change.nodes([name])])
        publishing.publish_changes(self.context)

    def retire(self, name: str) -> None:
        nodes.retire(self.context, [name])
        publishing.publish_changes(self.context)

    def seen(self) -> dict[str, Sighting]:
        return {sighting.mac: sighting for sighting in discovery.seen(self.context)}

    def up(self, wait: bool = True) -> Process:
        self.process = self.lab.start(
            self.host, "headnode", [sys.executable, "-m", "headnode", "--root", self.root, "up"]
        )
        if wait:
            self.process.wait_until(self.is_ready, 40, "get ready")
        return self.process

    def is_ready(self) -> bool:
        return "Ready: serving" in self.log()

    def pid(self, service: str) -> int:
        place = {"dnsmasq": "dnsmasq/provision", "dnsmasq-management": "dnsmasq/management", "nginx": "nginx/nginx"}
        if service in place:
            return pid_in(self.paths.runtime / f"{place[service]}.pid") or 0
        return int((ask(self.paths, {}) or {"pid": 0})["pid"])

    def reloads(self) -> int:
        return int((ask(self.paths, {}) or {"reloads": -1})["reloads"])

    def signal(self, service: str, number: signal.Signals = signal.SIGKILL) -> int:
        pid = self.pid(service)
        # 0 would be this very process and all its kin.
        assert pid > 1, f"{service} does not run"
        os.kill(pid, number)
        return pid

    def kill(self, service: str) -> float:
        """kill -9, and the seconds until another one runs in its place."""
        before, began = self.signal(service), time.monotonic()
        assert wait_for(lambda: self.pid(service) not in (0, before) and self.alive(service), 20)
        return time.monotonic() - began

    def alive(self, service: str) -> bool:
        return Path(f"/proc/{self.pid(service)}").exists()

    def events(self, node: str | None, kind: str = "") -> list[Event]:
        found = self.context.inventory.events(node, limit=5000)
        return [event for event in found if event.kind.startswith(kind)]

    def log(self) -> str:
        assert self.process is not None
        return self.process.log.read_text(errors="replace")


@contextmanager
def head_node(lab: Lab, root: Path, site: str = SITE) -> Iterator[Head]:
    """Wired and described, not yet started: eth0 provision, eth1 management, eth2 office."""
    host, nodes = lab.host("head"), lab.host("nodes")
    wires = [lab.switch(name) for name in ("provision", "management", "office")]
    for number, (wire, address) in enumerate(
        zip(wires, (f"{HEAD}/16", "10.21.255.254/16", "192.168.7.1/24"), strict=True)
    ):
        wire.attach(host, f"eth{number}", address=address)
    wires[0].attach(nodes, "eth0", address="10.20.250.1/16")
    run(["chmod", "755", root])
    head = Head(lab, root, host, wires[0], wires[1], wires[2], nodes)
    words = ["--cluster", "demo", "--domain", "demo.lan", "--provision-interface", "eth0"]
    head.headnode("init", "--yes", *words, "--management-interface", "eth1")
    head.paths.site_file.write_text(site)
    try:
        yield head
    finally:
        for log in sorted(head.paths.logs.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")  # noqa: T201


def own_address(head: Head, address: str) -> None:
    """The nodes' host takes this address, so that connections can come from it."""
    head.nodes.ip(f"addr replace {address}/16 dev eth0")


def eventually(condition: Callable[[], object], timeout: float = 20.0) -> float:
    """Seconds until it was true."""
    began = time.monotonic()
    assert wait_for(lambda: bool(condition()), timeout), "that never came true"
    return time.monotonic() - began


def dns(server: str, name: str, kind: int) -> list[bytes]:
    """The data of all answers to one question (1 A, 12 PTR, 33 SRV); RFC 1035 without compression in questions."""
    question = b"".join(bytes([len(word)]) + word.encode() for word in name.split(".")) + b"\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(5)
        udp.sendto(struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + question + struct.pack("!HH", kind, 1), (server, 53))
        reply = udp.recv(4096)
    position, found = 12 + len(question) + 4, []
    for _ in range(struct.unpack_from("!H", reply, 6)[0]):
        while reply[position] and reply[position] < 0xC0:
            position += reply[position] + 1
        position += 2 if reply[position] >= 0xC0 else 1
        length = struct.unpack_from("!H", reply, position + 8)[0]
        found.append(reply[position + 10 : position + 10 + length])
        position += 10 + length
    return found


def words(data: bytes) -> str:
    """A name in an answer, as far as it is not compressed."""
    found, position = [], 0
    while position < len(data) and 0 < data[position] < 0xC0:
        found.append(data[position + 1 : position + 1 + data[position]].decode())
        position += data[position] + 1
    return ".".join(found)
