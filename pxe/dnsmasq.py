"""DHCP, TFTP and DNS: dnsmasq's configuration, and our own judgement of it.

Host entries are one small file for each node, so that publishing a node touches only its own. dnsmasq reads one
assembled file: at 10,000 nodes it reloads that in a third of a second, a directory takes two (docs/decisions/0004).
Entries carry no tags (dnsmasq 2.90 crashes on reload with them) and are checked here, because `dnsmasq --test`
does not read them.
"""

import os
import re
import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

import templates
from headnode import run
from headnode.errors import ProgramFailed, PublishFailed
from headnode.model import File, Files, Node, Window
from headnode.paths import Paths
from headnode.site import Network, Site
from pxe.dhcp import MessageType, Op, Option, Packet, address_bytes, encode

CONFIGS = ("dnsmasq/provision.conf", "dnsmasq/management.conf", "dnsmasq/names.conf")
PROVISION_HOSTS = "dnsmasq/provision.d"
MANAGEMENT_HOSTS = "dnsmasq/management.d"
NAMES = "dnsmasq/names.d"

HOST_ENTRY = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2},(\d{1,3}(?:\.\d{1,3}){3}),[a-z0-9-]{1,63}", re.ASCII)
LOADERS = {"ipxe": "ipxe.efi", "snponly": "snponly.efi", "shim": "shimx64.efi"}


class Dnsmasq:
    """Three processes at most: DHCP and TFTP for nodes, their names, and DHCP for BMCs."""

    name = "dnsmasq"

    def __init__(self, places: Paths, window: Window | None = None) -> None:
        self.places = places
        self.window = window

    def site_files(self, site: Site) -> Files:
        values = {"site": site, "places": self.places, "made_from": f"site {site.cluster}"}
        files = {
            CONFIGS[0]: text(
                templates.render(
                    "dnsmasq/provision.conf.j2",
                    net=site.provision,
                    window=self.window,
                    loader=LOADERS[site.boot.uefi],
                    **values,
                )
            ),
            CONFIGS[2]: text(templates.render("dnsmasq/names.conf.j2", net=site.provision, **values)),
        }
        if site.management and site.management.dhcp:
            files[CONFIGS[1]] = text(templates.render("dnsmasq/management.conf.j2", net=site.management, **values))
        return files

    def node_files(self, site: Site, node: Node) -> Files:
        made_from = f"node {node.name}"
        files = {}
        if node.mac and node.address:
            files[f"{PROVISION_HOSTS}/{node.name}"] = host_entry(node.mac, node.address, node.name)
            names = templates.render("dnsmasq/names.j2", site=site, node=node, made_from=made_from)
            files[f"{NAMES}/{node.name}"] = text(names)
        if node.bmc and node.bmc.mac and site.management and site.management.dhcp:
            files[f"{MANAGEMENT_HOSTS}/{node.name}"] = host_entry(node.bmc.mac, node.bmc.address, node.name)
        return files

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        warnings: list[str] = []
        for path in changed:
            if path in CONFIGS:
                check_scope(path, (staged / path).read_text(), window_open=self.window is not None)
                warnings += ask_dnsmasq(path, staged / path)
            elif path.startswith((f"{PROVISION_HOSTS}/", f"{MANAGEMENT_HOSTS}/")):
                check_host_entries(path, (staged / path).read_text())
        return warnings


def host_entry(mac: str, address: str, name: str) -> File:
    values = {"mac": mac, "address": address, "name": name, "made_from": f"node {name}"}
    return text(templates.render("dnsmasq/host.j2", **values))


def check_scope(name: str, config: str, *, window_open: bool = False) -> None:
    """A configuration that could answer on any other interface, or to strangers, is refused, whoever wrote it."""
    lines = [line.split("#")[0].strip() for line in config.splitlines()]
    interfaces = [line for line in lines if re.match(r"interface\s*=", line)]
    if len(interfaces) != 1 or "*" in interfaces[0] or "bind-interfaces" not in lines or "bind-dynamic" in lines:
        raise PublishFailed(
            f"{name} does not hold dnsmasq to one interface (needs one 'interface=' and 'bind-interfaces')",
            hint="DHCP must never leave the provision network; restore the templates below templates/dnsmasq",
        )
    answers_dhcp = any(line.startswith("dhcp-range") for line in lines)
    if answers_dhcp and not window_open and "dhcp-ignore=tag:!known" not in lines:
        raise PublishFailed(f"{name} would answer unknown hardware (needs 'dhcp-ignore=tag:!known')")


def check_host_entries(name: str, entries: str) -> None:
    for number, line in enumerate(entries.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        found = HOST_ENTRY.fullmatch(line)
        if not found or not is_address(found[1]):
            raise PublishFailed(f"{name}, line {number}: '{line}' is not MAC,ADDRESS,NAME")


def is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def ask_dnsmasq(name: str, config: Path) -> list[str]:
    if not run.have("dnsmasq"):
        return ["dnsmasq is not installed here, so its configuration was not checked"]
    try:
        run.run(["dnsmasq", "--test", f"--conf-file={config}"])
    except ProgramFailed as error:
        said = (error.stderr.strip() or error.message).replace(str(config), name)
        raise PublishFailed(f"dnsmasq refuses {name}: {said}; what was live before still is") from error
    return []


def assemble(places: Paths) -> dict[str, set[str]]:
    """Join the nodes' small files into the ones dnsmasq reads; each appears whole or not at all.

    Returns the entries that are no longer there, by network.
    """
    target = places.runtime / "dnsmasq"
    target.mkdir(parents=True, exist_ok=True)
    gone = {}
    for network, source in (("provision", PROVISION_HOSTS), ("management", MANAGEMENT_HOSTS)):
        path = target / f"{network}.hosts"
        before = set(path.read_text().splitlines()) if path.exists() else set()
        lines = entries(places.published / source)
        put(path, "".join(lines))
        gone[network] = before - {line.rstrip("\n") for line in lines}
    put(target / "names", "".join(entries(places.published / NAMES)))
    return gone


def put(path: Path, content: str) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.write_text(content)
    draft.chmod(0o644)
    draft.replace(path)


def release(net: Network, gone: Iterable[str]) -> None:
    """Give back, in their names, the addresses of machines that are no longer these nodes.

    dnsmasq would keep the address of a node whose board was replaced for the old board until its lease ends, and give
    the new one nothing. It hears us because the kernel takes a packet to our own address for one from the interface
    that the socket is bound to.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, str(net.interface).encode())
        for entry in gone:
            mac, address, _ = entry.split(",")
            options: dict[int, bytes] = {
                Option.MESSAGE_TYPE: bytes([MessageType.RELEASE]),
                Option.SERVER_ID: address_bytes(str(net.head)),
            }
            packet = Packet(Op.REQUEST, secrets.randbits(32), mac, options, client_address=address)
            udp.sendto(encode(packet), (str(net.head), 67))


# What was read of each file, by directory: with 10,000 nodes, reading all again for a change of one takes seconds.
_READ: dict[Path, dict[str, tuple[int, int, str]]] = {}


def entries(directory: Path) -> list[str]:
    """The lines of all nodes, in the order of their names; only files that are new are read."""
    known, now = _READ.get(directory, {}), {}
    try:
        found = list(os.scandir(directory))
    except FileNotFoundError:
        found = []
    for entry in found:
        with suppress(FileNotFoundError):  # its node was retired a moment ago
            # Publishing replaces files, so a changed one is another inode.
            stat = entry.stat()
            had = known.get(entry.name)
            same = had is not None and had[:2] == (stat.st_ino, stat.st_mtime_ns)
            now[entry.name] = had if had and same else (stat.st_ino, stat.st_mtime_ns, stripped(Path(entry.path)))
    _READ[directory] = now
    return [line for name in sorted(now) for line in now[name][2].splitlines(keepends=True)]


def stripped(path: Path) -> str:
    return "".join(f"{line}\n" for line in path.read_text().splitlines() if line and not line.startswith("#"))


def text(content: str) -> File:
    return File(content.encode())
