"""Network namespaces and what is inside them. Links are made directly in their namespaces, never on the host,
so that deleting the namespaces deletes everything."""

import ctypes
import json
import os
import re
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headnode.errors import HeadnodeError, InvalidField, NotFound
from headnode.run import Completed, run

PREFIX = "hnl"
WORD = re.compile(r"[a-z0-9]{1,12}", re.ASCII)
# The kernel's limit for an interface name, without its final NUL.
LINK = re.compile(r"[A-Za-z0-9_.-]{1,15}", re.ASCII)
CLONE_NEWNET = 0x40000000
NAMED = Path("/run/netns")
SIOCGIFHWADDR = 0x8927


@dataclass(frozen=True)
class Namespace:
    """A named network namespace: one host of the lab, or the switch between hosts."""

    name: str

    def argv(self, argv: Sequence[str | Path]) -> list[str | Path]:
        """The command that runs `argv` in here; ip(8) replaces itself, so the process id is the program's."""
        return ["ip", "netns", "exec", self.name, *argv]

    def run(self, argv: Sequence[str | Path], *, check: bool = True, timeout: float | None = 60) -> Completed:
        return run(self.argv(argv), check=check, timeout=timeout)

    def ip(self, *commands: str) -> None:
        """Several ip(8) commands in one go, such as 'link set lo up'."""
        run(["ip", "-n", self.name, "-batch", "-"], input="\n".join(commands) + "\n")

    def add_address(self, link: str, address: str) -> None:
        self.ip(f"addr add {address} dev {link_name(link)}")

    def set_up(self, link: str, *, mac: str | None = None) -> None:
        change = f"address {mac} " if mac else ""
        self.ip(f"link set {link_name(link)} {change}up")

    def holds(self, pid: int) -> bool:
        """Whether a process is in here."""
        try:
            return Path(f"/proc/{pid}/ns/net").samefile(NAMED / self.name)
        except OSError:
            return False

    def links(self) -> set[str]:
        said = run(["ip", "-n", self.name, "-o", "link"]).stdout
        return {line.split(": ")[1].split("@")[0] for line in said.splitlines()}

    def mac(self, link: str) -> str:
        """The hardware address; asked through a socket, because /sys shows the host's links here."""
        with self.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            return hardware_address(any_socket, link)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run this thread (and threads it starts) in the namespace; sockets made here stay here for ever."""
        with Path("/proc/thread-self/ns/net").open("rb") as back:
            _enter(NAMED / self.name)
            try:
                yield
            finally:
                _setns(back.fileno())


@dataclass(frozen=True)
class Switch:
    """A bridge in the namespace of the lab's wiring, where emulated machines and their taps are too."""

    namespace: Namespace
    bridge: str

    def attach(
        self, host: Namespace, link: str, *, mac: str | None = None, address: str | None = None, quiet: bool = False
    ) -> str:
        """Give a host a NIC on this switch; returns the name of the switch's port.

        On a quiet one the kernel says nothing of its own accord, so that every packet is somebody's doing.
        """
        port = self._free_port(f"v-{host.name.rsplit('-', 1)[-1]}")
        peer = f"peer name {link_name(link)} netns {host.name}"
        with_mac = f"{peer} address {mac}" if mac else peer
        self.namespace.ip(
            f"link add {port} type veth {with_mac}",
            f"link set {port} master {self.bridge} up",
        )
        if quiet:
            host.ip(f"link set {link_name(link)} addrgenmode none")
        host.set_up(link)
        if address:
            host.add_address(link, address)
        return port

    def heard(self, port: str) -> int:
        """How many packets have come in at this port."""
        said = run(["ip", "-n", self.namespace.name, "-s", "-j", "link", "show", "dev", link_name(port)]).stdout
        return int(json.loads(said)[0]["stats64"]["rx"]["packets"])

    def add_tap(self, machine: str) -> str:
        tap = self._free_port(f"t-{machine}")
        self.namespace.ip(f"tuntap add dev {tap} mode tap", f"link set {tap} master {self.bridge} up")
        return tap

    def remove(self, port: str) -> None:
        self.namespace.ip(f"link del {link_name(port)}")

    def pull_cable(self, port: str) -> None:
        self.namespace.ip(f"link set {link_name(port)} down")

    def plug_cable(self, port: str) -> None:
        self.namespace.ip(f"link set {link_name(port)} up")

    def _free_port(self, wanted: str) -> str:
        taken = self.namespace.links()
        candidates = (wanted[:15], *(f"{wanted[:11]}.{number}" for number in range(2, 1000)))
        return link_name(next(name for name in candidates if name not in taken))


@contextmanager
def namespace(lab: str, role: str) -> Iterator[Namespace]:
    made = Namespace(namespace_name(lab, role))
    run(["ip", "netns", "add", made.name])
    try:
        made.set_up("lo")
        yield made
    finally:
        delete(made.name)


def add_switch(wiring: Namespace, name: str) -> Switch:
    # A real unmanaged switch forwards at once; the defaults of a Linux bridge would wait or filter.
    bridge = link_name(name)
    wiring.ip(f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0", f"link set {bridge} up")
    return Switch(wiring, bridge)


def namespace_name(lab: str, role: str) -> str:
    """Words have no hyphen, so that no lab's prefix is the beginning of another's."""
    return f"{PREFIX}-{word(lab, 'lab')}-{word(role, 'role')}"


def namespaces(lab: str | None = None) -> list[str]:
    """Every namespace of a lab, or of all labs; also of those that were killed."""
    prefix = f"{PREFIX}-" if lab is None else f"{PREFIX}-{word(lab, 'lab')}-"
    return sorted(path.name for path in NAMED.glob(f"{prefix}*")) if NAMED.is_dir() else []


def delete(name: str) -> None:
    """Delete a namespace if it is there."""
    if (NAMED / name).exists():
        run(["ip", "netns", "delete", name])


def word(value: str, field: str) -> str:
    if not WORD.fullmatch(value):
        raise InvalidField(field, value, "use 1 to 12 lower-case letters and digits")
    return value


def link_name(value: str) -> str:
    if not LINK.fullmatch(value):
        raise InvalidField("link", value, "an interface name has at most 15 characters")
    return value


def hardware_address(any_socket: socket.socket, link: str) -> str:
    import fcntl

    try:
        answer = fcntl.ioctl(any_socket, SIOCGIFHWADDR, struct.pack("256s", link.encode()))
    except OSError as error:
        raise NotFound(f"there is no network interface '{link}'") from error
    return answer[18:24].hex(":")


def _enter(path: Path) -> None:
    try:
        with path.open("rb") as target:
            _setns(target.fileno())
    except FileNotFoundError as error:
        raise NotFound(f"there is no network namespace '{path.name}'") from error


def _setns(descriptor: int) -> None:
    # os.setns arrived only in Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise HeadnodeError(f"the network namespace cannot be entered: {os.strerror(ctypes.get_errno())}")
