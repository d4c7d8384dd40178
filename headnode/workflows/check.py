"""Check: everything that has to be true of this machine before it may serve a cluster."""

import errno
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path

from headnode import control, exports, notify, ntp, packagecache, run, shares
from headnode.errors import HeadnodeError
from headnode.services import services
from headnode.workflows import discovery, people, planning, serve
from headnode.workflows.context import Context

NEIGHBOURS = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
SPACE_NEEDED = 5 * 1024**3


class Result(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    check: str
    result: Result
    message: str
    hint: str = ""


def check(context: Context) -> Iterator[Finding]:
    """One finding after the other, so that slow ones do not hold back the rest."""
    site = context.site
    said = f"cluster {site.cluster}, {len(site.networks)} networks, {len(site.profiles)} profiles"
    yield Finding("site", Result.OK, said)
    yield from programs(context)
    yield from assets(context)
    for name in ("provision", "management"):
        net = site.networks.get(name)
        if net is not None and net.interface is not None:
            yield tried(f"{name} interface", partial(interface, context, name))
    yield from ports(context)
    if site.directory.mode == "external":
        yield tried("directory", partial(directory, context))
    if site.packages.registries:
        yield tried("registries", partial(registries, context))
    if site.notify.webhook_file:
        yield webhook(Path(site.notify.webhook_file))
    yield neighbours(context)
    yield space(context)
    yield clock(context)
    for name in serve.networks_with_dhcp(context):
        yield tried(f"foreign DHCP on {name}", partial(foreign, context, name))
    if known := discovery.foreign_servers(context):
        # One silent moment proves nothing: the regular look clears this when they have really gone.
        hint = "'headnode events' says when; find it, or move the nodes to a wire of their own"
        yield Finding("foreign DHCP seen", Result.FAILED, f"answers {'; '.join(known)}", hint)


def tried(name: str, attempt: Callable[[], str]) -> Finding:
    try:
        return Finding(name, Result.OK, attempt())
    except HeadnodeError as error:
        return Finding(name, Result.FAILED, error.message, error.hint)


def interface(context: Context, name: str) -> str:
    return f"{serve.require_interface(context, name).name} is up and has its address"


def registries(context: Context) -> str:
    return f"the certificates of {', '.join(sorted(planning.registry_authorities(context)))} are there"


def webhook(file: Path) -> Finding:
    """That there is an address to tell; nobody is told anything now."""
    found = tried("webhook", lambda: f"{file} holds a web address" if notify.address_in(file) else "")
    if found.result is Result.OK and file.stat().st_mode & 0o007:
        return Finding("webhook", Result.WARNING, f"everybody can read {file}", f"chmod o= {file}")
    return found


def directory(context: Context) -> str:
    """Somebody else's: that it answers, and that its people have numbers nodes can use."""
    with people.directory(context) as found:
        numbers = [person.number for person in found.people()]
    if low := sum(number < 1000 for number in numbers):
        raise HeadnodeError(
            f"{low} of its {len(numbers)} people have no UID, or one that belongs to systems",
            hint="'headnode user list' shows them; directory.attributes names the right attribute",
        )
    return f"{context.site.directory.uri} answers and knows {len(numbers)} people"


def foreign(context: Context, name: str) -> str:
    serve.refuse_foreign_dhcp(context, name)
    return f"nobody else answers on {context.site.networks[name].interface}"


# Service → the package that brings it and the program that it is; those that not every site has.
OPTIONAL = {
    "slapd": ("slapd", "slapd"),
    "chronyd": ("chrony", "chronyd"),
    "nfs": ("nfs-ganesha nfs-ganesha-vfs", "ganesha.nfsd"),
    "package-cache": ("apt-cacher-ng", "apt-cacher-ng"),
}


def programs(context: Context) -> Iterator[Finding]:
    wanted = [("dnsmasq", "dnsmasq-base"), ("nginx", "nginx-light"), ("setpriv", "util-linux")]
    for service in services(context.site, context.paths):
        if service.name in OPTIONAL:
            package, program = OPTIONAL[service.name]
            wanted.append((program, package))
    for program, package in wanted:
        if run.have(program):
            yield Finding(f"program {program}", Result.OK, "installed")
        else:
            yield Finding(f"program {program}", Result.FAILED, "not installed", f"apt-get install {package}")


def assets(context: Context) -> Iterator[Finding]:
    from pxe.assets import ASSETS

    shim = context.site.boot.uefi == "shim"
    for asset in ASSETS:
        present = any(Path(source).exists() for source in asset.sources)
        needed = asset.needed or (shim and asset.name in ("shimx64.efi", "grubx64.efi"))
        if present:
            yield Finding(f"boot program {asset.name}", Result.OK, "there")
        elif needed:
            hint = f"apt-get install {asset.package}"
            yield Finding(f"boot program {asset.name}", Result.FAILED, "missing", hint)
        else:
            message = "missing; machines that need it cannot boot over the network"
            yield Finding(f"boot program {asset.name}", Result.WARNING, message)


def ports(context: Context) -> Iterator[Finding]:
    if control.running(context.paths):
        for service in services(context.site, context.paths):
            if service.ready():
                yield Finding(f"service {service.name}", Result.OK, "running")
            else:
                yield Finding(f"service {service.name}", Result.FAILED, "not running", "look at its log")
        return
    site = context.site
    wanted = [
        (socket.SOCK_DGRAM, 67, "DHCP"),
        (socket.SOCK_DGRAM, 69, "TFTP"),
        (socket.SOCK_DGRAM, 53, "DNS"),
        (socket.SOCK_STREAM, 80, "HTTP"),
        (socket.SOCK_DGRAM, ntp.PORT, "NTP"),
        *([(socket.SOCK_STREAM, 389, "LDAP")] if site.directory.mode == "internal" else []),
        *([(socket.SOCK_STREAM, exports.PORT, "NFS")] if shares.served(site) else []),
        *([(socket.SOCK_STREAM, packagecache.PORT, "packages")] if packagecache.wanted(site) else []),
    ]
    for kind, number, what in wanted:
        protocol = "udp" if kind == socket.SOCK_DGRAM else "tcp"
        address = shares.server_address(site) if what == "NFS" else site.provision.head
        yield port(f"port {number}/{protocol}", kind, str(address), number, what)


def port(name: str, kind: int, address: str, number: int, what: str) -> Finding:
    with socket.socket(socket.AF_INET, kind) as probe:
        try:
            probe.bind((address, number))
        except PermissionError:
            return Finding(name, Result.WARNING, "only root can tell whether it is free")
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return Finding(name, Result.WARNING, f"cannot be checked: this machine does not have {address}")
            hint = f"'ss -lnp sport = :{number}' names the program; stop it or keep it off {address}"
            return Finding(name, Result.FAILED, f"another program has the port for {what} on {address}", hint)
    return Finding(name, Result.OK, f"free for {what}")


def neighbours(context: Context) -> Finding:
    """Every node and BMC is a neighbour; beyond the kernel's limit packets are dropped, seemingly at random."""
    wanted = 2 * context.inventory.count() + 256
    try:
        limit = int(NEIGHBOURS.read_text())
    except (OSError, ValueError):
        return Finding(
            "neighbour table", Result.WARNING, "its limit cannot be read here (inside a namespace it is the host's)"
        )
    if limit >= wanted:
        return Finding("neighbour table", Result.OK, f"holds {limit}, {wanted} wanted")
    hint = f"sysctl -w net.ipv4.neigh.default.gc_thresh3={2 * wanted} (and gc_thresh2={wanted})"
    return Finding("neighbour table", Result.FAILED, f"holds {limit}, {wanted} wanted for these nodes", hint)


def space(context: Context) -> Finding:
    place = context.paths.state if context.paths.state.exists() else context.paths.root
    free = shutil.disk_usage(place).free
    message = f"{free / 1024**3:.1f} GiB free in {place}"
    if free < SPACE_NEEDED // 50:
        return Finding("disk space", Result.FAILED, message, "nothing can be published; free some space")
    if free < SPACE_NEEDED:
        return Finding("disk space", Result.WARNING, message, "images need several GiB each")
    return Finding("disk space", Result.OK, message)


def clock(context: Context) -> Finding:
    """Nodes take their time from here; a clock behind its own history is wrong."""
    now = datetime.now(UTC)
    last = context.inventory.events(limit=1)
    newest = last[0].at if last else None
    if newest is not None and (newest - now).total_seconds() > 60:
        hint = "set the clock, or let chrony do it"
        return Finding(
            "clock", Result.FAILED, f"says {now:%F %T} UTC, but events are recorded up to {newest:%F %T}", hint
        )
    return Finding("clock", Result.OK, f"{now:%F %T} UTC")
