"""A whole cluster in one lab: a head node that serves it, machines with BMCs in a rack, and the wires between them.

head   eth0 provision (10.20.0.1/16)   eth1 management (10.21.255.254/16)   eth2 office, which must stay silent
gpu01… one NIC on provision; its BMC on management at 10.21.0.11…
"""

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import templates
from headnode.control import running
from headnode.errors import HeadnodeError, NotFound
from headnode.files import write_whole
from headnode.lab import stock
from headnode.lab.lab import Lab, lab
from headnode.lab.machine import Disk, Machine
from headnode.lab.net import Namespace, Switch
from headnode.lab.node import LabNode, lab_node
from headnode.lab.process import MARK, Process
from headnode.lab.spec import DOMAIN, GIB, MANAGEMENT, OFFICE, PROVISION, NodeSpec, Places, Spec
from headnode.run import Completed
from images import hostkeys

Progress = Callable[[str], None]
SYSTEM_DISK, SECOND_DISK = 6 * GIB, 1 * GIB
READY_WITHIN = 180.0
# Its services end one after another, and directories are written out before.
ENDED_WITHIN = 60.0


@dataclass
class World:
    lab: Lab
    spec: Spec
    places: Places
    head: Namespace
    provision: Switch
    management: Switch
    office: Switch
    office_port: str
    bmcs: Namespace
    nodes: dict[str, LabNode] = field(default_factory=dict)
    services: Process | None = None

    def headnode(self, *words: str, check: bool = True, timeout: float = 120) -> Completed:
        """A command of the product, as the admin of this head node runs it."""
        return self.head.run(command(self.places, *words), check=check, timeout=timeout)

    def node(self, name: str) -> LabNode:
        if name not in self.nodes:
            raise NotFound(f"there is no node '{name}' in the lab '{self.spec.name}'; it has {', '.join(self.nodes)}")
        return self.nodes[name]

    def serve(self) -> None:
        """'headnode up' in the head node's namespace, ready when this returns."""
        argv = [sys.executable, "-m", "headnode", "--root", str(self.places.head.root), "up"]
        self.services = self.lab.start(self.head, "headnode", argv, grace=ENDED_WITHIN)
        said = self.services.log.stat().st_size
        self.services.wait_until(lambda: self.says_ready(said), READY_WITHIN, "get ready")

    def says_ready(self, after: int) -> bool:
        assert self.services is not None  # noqa: S101 - for the type checker
        return b"Ready: serving" in self.services.log.read_bytes()[after:]

    @property
    def serving(self) -> bool:
        return self.services is not None and self.services.alive and running(self.places.head)

    @property
    def silent(self) -> bool:
        """Whether the head node has kept quiet on the wire that is none of its business."""
        return self.office.heard(self.office_port) == 0

    def enrolment(self, node: NodeSpec) -> list[str]:
        """The words of the command that enrols a node."""
        return ["enroll", node.name, "--mac", node.mac, "--bmc", node.bmc, "--profile", "gpu", "--yes"]


def command(places: Places, *words: str) -> list[str | Path]:
    """Marked as the lab's, so that one that still waits for an answer ends with it."""
    mark = f"{MARK}={places.home.name}"
    return ["env", mark, sys.executable, "-m", "headnode", "--root", str(places.head.root), *words]


@contextmanager
def world(spec: Spec, *, cache: Path = stock.CACHE, progress: Progress = stock.quietly) -> Iterator[World]:
    """Bring it up; whatever happens, nothing runs afterwards. Its directory stays until link.down() removes it."""
    places = Places.of(spec.name)
    prepare(places, spec)
    progress("laying the wires")
    with lab(spec.name, logs=places.logs) as running_lab:
        made = wired(running_lab, spec, places)
        if not places.head.site_file.exists():
            progress("setting up the head node")
            set_up(made)
        if spec.images:
            progress("giving the head node its image and ramdisk")
            stock.install(places.head, cache)
        for node in spec.nodes:
            progress(f"racking {node.name}")
            made.nodes[node.name] = rack(made, node)
        progress("starting the head node's services")
        made.serve()
        yield made


def prepare(places: Places, spec: Spec) -> None:
    """The lab's directory, with what is chosen at random once."""
    # Root's files are only for root below, but the way there is open: nginx and dnsmasq give up root.
    for path in (places.home, places.logs, places.head.config, places.home / "nodes"):
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
    if not places.bmc_password.exists():
        write_whole(places.bmc_password, secrets.token_hex(8).encode() + b"\n", 0o600)
    if not places.ssh_key.exists():
        key = hostkeys.generate()[0]
        write_whole(places.ssh_key.with_suffix(".pub"), f"{key.public} lab\n".encode(), 0o644)
        write_whole(places.ssh_key, key.private.encode(), 0o600)
    write_whole(places.spec, spec.json.encode() + b"\n", 0o644)


def wired(running_lab: Lab, spec: Spec, places: Places) -> World:
    head, bmcs = running_lab.host("head"), running_lab.host("bmcs")
    provision, management, office = (running_lab.switch(name) for name in ("provision", "management", "office"))
    provision.attach(head, "eth0", address=PROVISION)
    management.attach(head, "eth1", address=MANAGEMENT)
    port = office.attach(head, "eth2", address=OFFICE, quiet=True)
    management.attach(bmcs, "eth0")
    return World(running_lab, spec, places, head, provision, management, office, port, bmcs)


def set_up(made: World) -> None:
    """A site as 'headnode init' makes it, then with the lab's own answers."""
    words = ["--cluster", made.spec.name, "--domain", DOMAIN]
    made.headnode("init", "--yes", *words, "--provision-interface", "eth0", "--management-interface", "eth1")
    places = made.places
    password_file = f"/{places.bmc_password.relative_to(places.head.root)}"
    text = site_text(made.spec.name, password_file, places.ssh_key.with_suffix(".pub").read_text().strip())
    write_whole(places.head.site_file, text.encode(), 0o640)
    checked = made.headnode("site", "check", check=False)
    if checked.returncode != 0:
        places.head.site_file.unlink()
        raise HeadnodeError(f"the lab's site file is not valid: {checked.stderr.strip()}")


def site_text(cluster: str, password_file: str, key: str) -> str:
    return templates.render(
        "lab/site.yaml.j2",
        cluster=cluster,
        domain=DOMAIN,
        password_file=password_file,
        key=key,
        image=stock.NAME,
        made_from=f"lab {cluster}",
    )


def rack(made: World, node: NodeSpec) -> LabNode:
    home = made.places.node(node.name)
    home.mkdir(parents=True, exist_ok=True)
    sizes = (SYSTEM_DISK, SECOND_DISK)[: made.spec.disks]
    disks = tuple(Disk(home / f"disk{n}.img", size, f"LAB{node.number:02d}D{n}") for n, size in enumerate(sizes))
    machine = Machine(
        node.name, (node.mac,), node.firmware, memory_mib=made.spec.memory_mib, cpus=made.spec.cpus,
        disks=disks, serial=node.serial,
    )  # fmt: skip
    made.bmcs.add_address("eth0", f"{node.bmc}/16")
    password = made.places.bmc_password.read_text().strip()
    racked = lab_node(
        made.lab, machine, [made.provision], bmc_host=made.bmcs, bmc_address=node.bmc, password=password, directory=home
    )
    return made.lab.enter(racked)


def free_port(wanted: int) -> int:
    """The first port of the loopback address, from this one on, that nobody has."""
    import socket

    for port in range(wanted, wanted + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise HeadnodeError(f"no port from {wanted} on is free on this machine's loopback address")


def is_root() -> None:
    if os.geteuid() != 0:
        raise HeadnodeError("a lab needs root, for its network namespaces", hint="use sudo")
