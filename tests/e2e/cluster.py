"""A lab whose nodes are installed, shared by all journeys of a test run: installing is what takes the time.

How to use it, in any test module of this directory:

    from tests.e2e.cluster import Cluster, cluster_marks

    pytestmark = cluster_marks                    # e2e, root, the programs it needs, and minutes of patience

    def test_something_on_a_node(cluster: Cluster) -> None:
        node = cluster.installed("gpu01")            # waits until the state is up; gpu01 is BIOS, gpu02 UEFI
        cluster.headnode("power", "status", "gpu01") # the product's command line, as root on the head node
        cluster.ssh("gpu01", "id", "-u", "ada")      # a command on the node, as root, with the lab's key
        cluster.ssh("gpu01", "id", user="ada", key=path)     # as somebody else
        node.machine.wait_for("login:", 60)          # its serial console: wait_for, type, console()
        cluster.context                              # the inventory in this process: a command takes a second to start
        cluster.world.head                           # the head node's namespace: run(), inside()

The site is templates/lab/site.yaml.j2, the image headnode/lab/stock.py. gpu01 and gpu02 must be up again when a test
is done; gpu03 is there for what nobody else may see: it is never installed.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import pytest

from headnode.lab import link
from headnode.lab.machine import Firmware
from headnode.lab.node import LabNode
from headnode.lab.process import wait_for
from headnode.lab.spec import Spec
from headnode.lab.world import World, world
from headnode.model import Event, Node, State
from headnode.run import Completed
from headnode.workflows.context import Context
from tests.images import cached

INSTALLED = ("gpu01", "gpu02")
SPARE = "gpu03"
# Seconds by which gpu02's hardware clock is ahead of ours, and more: between here and its start some minutes pass.
SHIFT = 900
# Long enough for a busy machine; a node that fails says so at once.
PATIENCE = 1200.0
cluster_marks = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.timeout(2400),
    pytest.mark.program(
        "ip", "dnsmasq", "nginx", "mmdebstrap", "zstd", "qemu-system-x86_64", "ipmi_sim", "ssh", "grub-mkstandalone"
    ),
]


@dataclass
class Cluster:
    world: World
    # When each node reached each state, in seconds since its deployment was asked for.
    times: dict[str, dict[str, float]] = field(default_factory=dict)
    # Why installing stopped: whoever waits for a node that will never come is told at once.
    trouble: str = ""

    @cached_property
    def context(self) -> Context:
        return Context(self.world.places.head, actor="test", cause="test")

    def headnode(self, *words: str) -> str:
        done = self.world.headnode(*words, check=False)
        assert done.returncode == 0, f"headnode {' '.join(words)}: {done.stderr}"
        return done.stdout

    def node(self, name: str) -> Node:
        found = self.context.inventory.node(name)
        assert found is not None, f"{name} is not enrolled"
        return found

    def events(self, name: str, kind: str = "") -> list[Event]:
        return [event for event in self.context.inventory.events(name, limit=5000) if event.kind.startswith(kind)]

    def enroll(self, name: str) -> None:
        spec = next(node for node in self.world.spec.nodes if node.name == name)
        self.headnode(*self.world.enrolment(spec))

    def deploy(self, name: str) -> None:
        """Through its BMC, as an admin does it; returns at once."""
        self.times[name] = {"asked": time.monotonic()}
        self.headnode("deploy", name, "--yes")

    def until(self, name: str, *wanted: State, patience: float = PATIENCE) -> State:
        """Wait for a state; a failure is told with the node's own reason and the end of its console."""

        def reached() -> bool:
            return bool(self.trouble) or self.node(name).state in (*wanted, State.FAILED)

        arrived = wait_for(reached, patience)
        node = self.node(name)
        assert not self.trouble or node.state in wanted, self.trouble
        console = self.world.node(name).machine.console()[-3000:]
        assert arrived, f"{name} is still {node.state} after {patience:.0f} seconds; its console ends with: {console}"
        failed = node.state is State.FAILED and State.FAILED not in wanted
        assert not failed, f"{name} failed in {node.phase}: {node.reason}; its console ends with: {console}"
        return node.state

    def passed(self, name: str, state: str) -> None:
        self.times[name].setdefault(state, time.monotonic() - self.times[name]["asked"])

    def installed(self, name: str) -> LabNode:
        self.until(name, State.UP)
        self.passed(name, "up")
        return self.world.node(name)

    def ssh(self, name: str, *command: str, user: str = "root", key: Path | None = None, check: bool = True) -> str:
        done = self.try_ssh(name, *command, user=user, key=key)
        assert not check or done.returncode == 0, f"{command} on {name}: {done.stderr}"
        return done.stdout

    def try_ssh(self, name: str, *command: str, user: str = "root", key: Path | None = None) -> Completed:
        known = self.world.places.home / "known_hosts"
        options = ("StrictHostKeyChecking=accept-new", f"UserKnownHostsFile={known}", "BatchMode=yes",
                   "ConnectTimeout=30", "LogLevel=ERROR", "IdentitiesOnly=yes")  # fmt: skip
        words = [word for option in options for word in ("-o", option)]
        address = str(self.node(name).address)
        argv = ["ssh", "-i", str(key or self.world.places.ssh_key), *words, f"{user}@{address}", *command]
        return self.world.head.run(argv, check=False, timeout=180)


@contextmanager
def running_cluster(name: str) -> Iterator[Cluster]:
    """A lab with two nodes that are being installed, one after the other, and a third that nobody knows."""
    spec = Spec(name, (Firmware.BIOS, Firmware.UEFI, Firmware.BIOS))
    cached.ramdisk_base(), cached.node_image()
    try:
        with world(spec, cache=cached.CACHE) as made:
            cluster = Cluster(made)
            # Its clock is wrong whenever it is switched on; test_shared.py looks at what becomes of that.
            shift_clock(made.node("gpu02"))
            for one in INSTALLED:
                cluster.enroll(one)
            threading.Thread(target=install_all, args=(cluster,), daemon=True).start()
            yield cluster
            cluster.context.close()
            for log in sorted(made.places.head.logs.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")  # noqa: T201
    finally:
        link.down(name)


def shift_clock(node: LabNode) -> None:
    """QEMU's clock begins there each time it is switched on: far enough ahead to be more than 90 seconds off then."""
    wrong = datetime.now(UTC) + timedelta(seconds=SHIFT)
    node.machine.machine = replace(node.machine.machine, clock=f"{wrong:%Y-%m-%dT%H:%M:%S}")


def install_all(cluster: Cluster) -> None:
    """The second begins when the first has its image: unpacking takes all of two processors, booting one."""
    try:
        for name in INSTALLED:
            cluster.deploy(name)
            cluster.until(name, State.VERIFYING, State.UP)
            cluster.passed(name, "deployed")
    except AssertionError as error:
        cluster.trouble = f"installing {name} stopped: {error}"
