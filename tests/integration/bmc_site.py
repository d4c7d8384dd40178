"""A site whose management network is on the loopback interface, with simulated BMCs and enrolled nodes."""

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from headnode import bmclink, vault
from headnode.errors import HeadnodeError
from headnode.lab.bmc import LabBmc, Simulator
from headnode.lab.chassis import ChassisService, FakeChassis
from headnode.paths import Paths
from headnode.workflows import enroll, init
from headnode.workflows.context import Context
from tests.conftest import GIVEN
from tests.integration.bmc_lab import free_port
from tests.support import Result, headnode, mac, row

LOOPBACK = "127.44"
NETWORK = IPv4Network(f"{LOOPBACK}.0.0/16")
CANARY = "Canary-Qx71.ze"


@dataclasses.dataclass
class BmcSite:
    root: Path
    machines: dict[str, FakeChassis]
    # That of the first node, and all by their nodes' names.
    simulator: Simulator
    simulators: dict[str, Simulator] = dataclasses.field(default_factory=dict)

    @property
    def paths(self) -> Paths:
        return Paths(self.root)

    @contextmanager
    def context(self) -> Iterator[Context]:
        made = Context(self.paths, "tester", "a test")
        try:
            yield made
        finally:
            made.close()

    def headnode(self, *words: str, typed: bytes | None = None) -> Result:
        return headnode(self.root, *words, typed=typed)

    def answers(self, *words: str) -> dict[str, dict[str, Any]]:
        return {item["name"]: item for item in json.loads(self.headnode(*words, "-o", "json").out)}

    def events(self, kind: str, node: str | None = None) -> list[str]:
        with self.context() as context:
            return [e.message for e in context.inventory.events(node, limit=1000) if e.kind == kind]


def address(number: int) -> str:
    return f"{LOOPBACK}.0.{number}"


def make_root(root: Path, more: str = "") -> Path:
    init.create(Paths(root), dataclasses.replace(GIVEN, management=NETWORK))
    file = Paths(root).site_file
    port = f"bmc:\n  port: {free_port()}\n  poll_seconds: 1\n"
    text = file.read_text().replace("bmc:\n", port, 1)
    file.write_text(text.replace("racks: {}\n", more or "racks: {}\n"))
    return root


def enrol(root: Path, addresses: Sequence[str], password: str = CANARY, **more: str) -> list[str]:
    context = Context(Paths(root), "tester", "a test")
    rows = [row(name=f"gpu{n:02}", mac=mac(n), bmc=at, profile="gpu", **more) for n, at in enumerate(addresses, 1)]
    enroll.enroll(context, rows, vault.seal(password, context.paths.secret_key))
    context.close()
    return [made.values["name"] for made in rows]


@contextmanager
def bmc_site(
    directory: Path, count: int = 3, *, more: str = "", serial_ports: Sequence[int] = (), **fields: str
) -> Iterator[BmcSite]:
    """Nodes gpu01… with a BMC each; their machines are front panels without a machine."""
    names = [f"gpu{n:02}" for n in range(1, count + 1)]
    machines = {name: FakeChassis() for name in names}
    root = make_root(directory / "root", more)
    enrol(root, [address(n) for n in range(1, count + 1)], **fields)
    ports = [*serial_ports, *[0] * count]
    with ChassisService(directory / "chassis.sock", machines) as service:
        # A process each: a chassis command blocks its simulator, and on a busy machine five in a row take too long.
        made = [
            Simulator(
                name,
                [LabBmc(name, address(n), CANARY, chassis_command=service.command(name), serial_port=port,
                        serial_number=f"SN-{name}")],
                directory / "sim" / name,
                control_port=free_port(),
            )
            for n, (name, port) in enumerate(zip(names, ports, strict=False), 1)
        ]  # fmt: skip
        try:
            for simulator in made:
                simulator.start()
            for simulator in made:
                simulator.wait_ready()
            yield BmcSite(root, machines, made[0], dict(zip(names, made, strict=True)))
        finally:
            for simulator in made:
                simulator.stop()


def eventually(look: Callable[[], Any], timeout: float = 10.0) -> Any:
    """What `look` finds, as soon as it finds something."""
    end = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < end, f"not within {timeout:g} s"
        time.sleep(0.05)
    return found


class SerialLine:
    """A node's serial line on a TCP port: says what it is told to, and keeps what was typed."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.server.getsockname()[1])
        self.typed = b""
        self.connection: socket.socket | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.connection, _ = self.server.accept()
                while data := self.connection.recv(4096):
                    self.typed += data

    def say(self, text: str) -> None:
        eventually(lambda: self.connection)
        assert self.connection is not None
        self.connection.sendall(text.encode())

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.server.close()


class Daemon:
    """headnode-bmc as a process of its own, as the supervisor starts it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "bmc.log"
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headnode.bmcd"], env={**os.environ, "HEADNODE_ROOT": str(self.root)},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        eventually(self.ready, 30)

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with bmclink.connected(Paths(self.root)) as connection:
            if connection is None:
                return False
            try:
                return bool(list(bmclink.ask(connection, {"verb": "status"})))
            except HeadnodeError:
                return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


@contextmanager
def daemon(root: Path) -> Iterator[Daemon]:
    running = Daemon(root)
    try:
        yield running
    finally:
        running.stop()
        print(running.log.read_text()[-4000:])  # noqa: T201 - shown beside a failure
