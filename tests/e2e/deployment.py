"""A head node with an image, a ramdisk and one node to deploy, as the tests and the benchmark of deploying use them."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from headnode.lab.lab import lab
from headnode.lab.machine import Disk, Firmware, Machine
from headnode.lab.qemu import RunningMachine, plugged_in
from headnode.model import Deployment, Intent, Node, State
from headnode.run import Completed, run
from headnode.workflows import deploy
from images.ramdisk.build import assemble
from images.store import IMAGE, Store
from tests.images import cached
from tests.integration.boot import SITE, Head, head_node

NAME, MAC = "gpu01", "52:54:00:aa:00:01"
SYSTEM, SCRATCH = "LABDISK1", "LABDISK3"
LAYOUTS = f"""
layouts:
  lab:
    disks:
      system: {{min_size: 2G, serial: {SYSTEM}}}
    volumes:
      - {{name: esp, on: system, size: 64M, type: esp, mount: /boot/efi}}
      - {{name: bios, on: system, size: 1M, type: bios-boot}}
      - {{name: swap, on: system, size: 128M, type: swap}}
      - {{name: tmp, on: system, size: 256M, mount: /tmp, options: [nodev, nosuid]}}
      - {{name: root, on: system, size: rest, mount: /}}
  two-disks:
    disks:
      system: {{min_size: 2G, serial: {SYSTEM}}}
      scratch: {{serial: {SCRATCH}}}
    volumes:
      - {{name: esp, on: system, size: 64M, type: esp, mount: /boot/efi}}
      - {{name: bios, on: system, size: 1M, type: bios-boot}}
      - {{name: swap, on: system, size: 128M, type: swap}}
      - {{name: tmp, on: system, size: 256M, mount: /tmp, options: [nodev, nosuid]}}
      - {{name: root, on: system, size: rest, mount: /}}
      - {{name: scratch, on: scratch, size: rest, type: xfs, mount: /scratch}}
"""
STEP = re.compile(r"(.*): done in ([\d.]+) s")
# Looking costs a share of the two cores that the emulated machine needs.
# Twenty seconds for the image.
SLOW = "rate 40mbit burst 64kb latency 200ms"
LOOK_EVERY = 0.25


@dataclass
class Rack:
    """The head node, the key of its admin, and what is known of the one node."""

    head: Head
    key: Path
    marks: dict[str, float] = field(default_factory=dict)

    @property
    def node(self) -> Node:
        found = self.head.context.inventory.node(NAME)
        assert found is not None
        return found

    @property
    def work(self) -> Deployment:
        found = self.head.context.inventory.deployment(self.node)
        assert found is not None
        return found

    @property
    def image(self) -> Path:
        return self.head.paths.state / "images/node@1" / IMAGE

    def enroll(self, **columns: str) -> None:
        self.head.enroll(NAME, mac=MAC, **columns)

    def begin(self, intent: Intent = Intent.DEPLOY, consent: Sequence[str] = ()) -> None:
        image = "node@1" if intent is Intent.DEPLOY else None
        deploy.begin(self.head.context, [NAME], intent, image=image, consent=consent)

    def until(self, condition: Callable[[], bool], timeout: float = 600) -> None:
        """Wait; a node that fails meanwhile is the end of the test, with its reason."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert self.node.state is not State.FAILED, f"{self.node.phase}: {self.node.reason}"
            assert time.monotonic() < deadline, f"still {self.node.state} at {self.work.step} {self.work.percent} %"
            time.sleep(LOOK_EVERY)

    def until_state(self, state: State, timeout: float = 600) -> None:
        self.until(lambda: self.node.state is state, timeout)

    def until_streaming(self, percent: int) -> None:
        """Until that much of the image is on the node."""
        self.until(lambda: bool(self.work.received) and (self.work.percent or 0) >= percent)

    def failure(self, timeout: float = 300) -> str:
        """The reason of the failure that is waited for."""
        deadline = time.monotonic() + timeout
        while self.node.state is not State.FAILED:
            assert time.monotonic() < deadline, f"still {self.node.state} at {self.work.step} {self.work.percent} %"
            time.sleep(LOOK_EVERY)
        return f"{self.node.phase}: {self.node.reason}"

    def ssh(self, command: str, *, check: bool = True) -> Completed:
        """As root on the node, from the head node, which knows the node by nothing but the published known_hosts."""
        known = self.head.paths.published / "ssh/known_hosts"
        options = (
            "BatchMode=yes", "StrictHostKeyChecking=yes", f"GlobalKnownHostsFile={known}", "UserKnownHostsFile=none",
            f"HostKeyAlias={NAME}", "IdentitiesOnly=yes", "ConnectTimeout=60",
        )  # fmt: skip
        words = [word for option in options for word in ("-o", option)]
        address = self.head.address(NAME)
        argv: list[str | Path] = ["ssh", "-F", "none", *words, "-i", self.key, f"root@{address}", command]
        return self.head.host.run(argv, check=check, timeout=600)

    def restart(self) -> None:
        """The head node goes down with everything it runs, and comes back."""
        assert self.head.process is not None
        self.head.process.stop()
        self.head.up()

    def mark(self, phase: str) -> None:
        self.marks[phase] = time.monotonic()

    def phases(self) -> str:
        """How long each part took: what the test saw from outside, and the steps in the agent's own words."""
        times = list(self.marks.items())
        outside = [f"{name} {at - before:.0f} s" for (_, before), (name, at) in pairwise(times)]
        return ", ".join(outside) + f" (deploying: {', '.join(self.longest_steps())})"

    def steps(self) -> list[tuple[str, float]]:
        """The steps of the newest deployment, in order."""
        said = [event.message for event in self.head.events(NAME, "agent.step-done")]
        found = [(match[1], float(match[2])) for line in said if (match := STEP.fullmatch(line))]
        begins = [at for at, (name, _) in enumerate(found) if name.startswith("check that the disks")]
        return found[begins[-1] :] if begins else []

    def longest_steps(self, most: int = 5) -> list[str]:
        longest = sorted(self.steps(), key=lambda step: -step[1])[:most]
        return [f"{name} {seconds:.1f} s" for name, seconds in longest]


@contextmanager
def rack(place: Path, name: str = "d", images: Path | None = None) -> Iterator[Rack]:
    """Everything is real: services, image, ramdisk."""
    images = images or cached.node_image().directory.parent
    key = place / "admin"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])
    access = f'\naccess: {{admin_keys: ["{key.with_suffix(".pub").read_text().strip()}"]}}\n'
    site = SITE.replace("gpu: {}", "gpu: {layout: lab, image: node}") + LAYOUTS + access
    root = place / "root"
    root.mkdir()
    with lab(f"{name}{os.getpid():x}", logs=place) as made, head_node(made, root, site) as head:
        store = head.paths.state / "images"
        shutil.copytree(images, store, copy_function=os.link)
        assert Store(store).find("node").reference == "node@1"
        ramdisk = head.paths.state / "ramdisk/x86_64"
        ramdisk.mkdir(parents=True)
        assemble(cached.ramdisk_base(), ramdisk, cached.EPOCH)
        head.up()
        yield Rack(head, key)


@contextmanager
def machine(at: Rack, place: Path, firmware: Firmware, disks: tuple[Disk, ...] = ()) -> Iterator[RunningMachine]:
    """The node itself, off, with the network first in its boot order."""
    system = Disk(place / "system.img", 4 << 30, SYSTEM)
    made = Machine(NAME, (MAC,), firmware, memory_mib=1536, cpus=2, disks=(system, *disks), serial="SN-0001")
    with plugged_in(at.head.lab, made, [at.head.wire], place / NAME) as node:
        yield node


@contextmanager
def slow_wire(at: Rack, node: RunningMachine) -> Iterator[None]:
    """An image takes its time on it: whoever acts in the middle of a transfer finds one, also on a fast machine."""
    wiring, tap = at.head.wire.namespace, node.taps[0]
    wiring.run(["tc", "qdisc", "add", "dev", tap, "root", "tbf", *SLOW.split()])
    try:
        yield
    finally:
        wiring.run(["tc", "qdisc", "del", "dev", tap, "root"])
