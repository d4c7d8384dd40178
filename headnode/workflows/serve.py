"""Bringing the services up: what has to be true before each may start."""

import fcntl
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from headnode import authority, clock, exports, machine, packagecache
from headnode.errors import HeadnodeError
from headnode.log import logger
from headnode.machine import answers
from headnode.services import Service, command_of, pid_in, services
from headnode.supervisor import Supervisor
from headnode.workflows import doors, publishing
from headnode.workflows.context import Context

if TYPE_CHECKING:
    from pxe.probe import Offer

PROBE_SECONDS = 3.0


def prepare_directory(context: Context) -> None:
    from headnode.directory import server

    server.prepare(context.site, context.paths)
    context.paths.ldap_socket.unlink(missing_ok=True)


# What these need beyond their published configuration, before every start.
PREPARED: dict[str, Callable[[Context], None]] = {
    "slapd": prepare_directory,
    "chronyd": lambda context: clock.prepare(context.paths),
    "nfs": lambda context: exports.prepare(context.paths, context.site),
    "package-cache": lambda context: packagecache.prepare(context.paths),
}
SOCKETS = {"node-api": "node.sock", "bmc": "bmc.sock", "reconcile": "control.sock", "web": "web.sock"}


def supervisor(context: Context, only: str | None = None) -> Supervisor:
    """All services, or one alone as systemd runs it; what ends is started again at once, without a preflight."""
    found = services(context.site, context.paths)
    if only is not None:
        found = [service for service in found if service.name == only]
        if not found:
            names = ", ".join(service.name for service in services(context.site, context.paths))
            raise HeadnodeError(f"there is no service '{only}'", hint=f"services here: {names}")
    return Supervisor(found, prepare=lambda service, first: prepare(context, service, first))


def prepare(context: Context, service: Service, first: bool) -> None:
    try:
        if first:
            context.paths.runtime.mkdir(parents=True, exist_ok=True)
            claim(context, service)
            end_orphan(service)
        make_ready(context, service, first)
    except OSError as error:
        raise HeadnodeError(f"{service.name} cannot be prepared: {error}") from error


def claim(context: Context, service: Service) -> None:
    """One supervisor for each service: a second one would pull the sockets from under the first."""
    path = context.paths.runtime / f"{service.name}.lock"
    # Kept open, and so locked, for as long as this process lives; its children do not inherit it.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise HeadnodeError(
            f"{service.name} is running already, under another 'headnode up' or systemd",
            hint="stop that one first: Ctrl-C, or 'systemctl stop headnode.target'",
        ) from None


def end_orphan(service: Service) -> None:
    """dnsmasq gives up root, and with it the duty to end with its supervisor: one left by a crash holds the ports."""
    pid = pid_in(service.pid_file) if service.pid_file else None
    if pid is None or service.pid_file is None or service.argv[-1] not in command_of(pid):
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while service.argv[-1] in command_of(pid) and time.monotonic() < deadline:
        time.sleep(0.05)


def make_ready(context: Context, service: Service, first: bool) -> None:
    from pxe import assets, dnsmasq, nginx

    if service.name == "nginx":
        if first:
            require_interface(context, "provision")
            publishing.publish_changes(context)
            assets.install(context.paths)
        nginx.prepare(context.paths)
    elif service.name.startswith("dnsmasq"):
        if first:
            network = service.name.partition("-")[2] or "provision"
            require_interface(context, "provision" if network == "names" else network)
            publishing.publish_changes(context)
            assets.install(context.paths)
            if network in networks_with_dhcp(context):
                refuse_foreign_dhcp(context, network)
        context.paths.logs.mkdir(parents=True, exist_ok=True)
        dnsmasq.assemble(context.paths)
    elif service.name in PREPARED:
        if first:
            require_interface(context, "provision")
            publishing.publish_changes(context)
        PREPARED[service.name](context)
    elif service.name in SOCKETS:
        # A socket left by a killed process would look like readiness.
        (context.paths.runtime / SOCKETS[service.name]).unlink(missing_ok=True)
        if service.name == "web":
            prepare_people_door(context, first)


def prepare_people_door(context: Context, first: bool) -> None:
    """A port that somebody else has would look like readiness; while there is no admin, the way to become one."""
    web = context.site.web
    if first and answers(web.host, int(web.port)):
        raise HeadnodeError(
            f"another program has {web.listen} (web.listen in site.yaml), where the pages are to be",
            hint=f"'ss -lntp sport = :{web.port}' names the program; stop it or choose another port",
        )
    if web.encrypted and web.certificate is None:
        authority.sign_server(context.paths.ca, context.paths.state / "web", "web", [web.host], context.site.cluster)
    if first and doors.first_link(context):
        note = context.paths.runtime / "first-admin"
        logger("headnode.up").info("nobody can log in yet; the link for the first admin is in a file", file=str(note))


def require_interface(context: Context, name: str) -> machine.Interface:
    """The interface is there, is up, and has the head node's address; otherwise nothing is served."""
    net = context.site.networks[name]
    found = next((i for i in machine.interfaces() if i.name == net.interface), None)
    if found is None:
        raise HeadnodeError(
            f"networks.{name}.interface is '{net.interface}', and this machine has no such interface",
            hint="'ip link' lists them; correct site.yaml or create it",
        )
    if not found.up:
        raise HeadnodeError(f"the interface {found.name} is down", hint=f"ip link set {found.name} up")
    if net.head is not None and net.head not in [address.ip for address in found.addresses]:
        raise HeadnodeError(
            f"the interface {found.name} does not have the head node's address {net.head}",
            hint=f"ip address add {net.head}/{net.cidr.prefixlen} dev {found.name}",
        )
    if found.default_route:
        raise HeadnodeError(
            f"the interface {found.name} carries the default route; DHCP there would reach machines that are not yours",
            hint=f"use another interface or a VLAN for networks.{name}",
        )
    return found


def networks_with_dhcp(context: Context) -> list[str]:
    """Where we answer DHCP, and so nobody else may."""
    management = context.site.management
    return ["provision", *(["management"] if management and management.dhcp else [])]


def foreign_offers(context: Context, name: str) -> "list[Offer]":
    """Offers of others. Ours carry this interface's hardware address: a twin with our IP address is foreign too."""
    from pxe.probe import probe

    return probe(str(context.site.networks[name].interface), PROBE_SECONDS, ours=[require_interface(context, name).mac])


def named(offer: "Offer") -> str:
    """Which server that was; the address it gives differs from one question to the next."""
    return f"{offer.server_id} ({offer.source_mac})"


def refuse_foreign_dhcp(context: Context, name: str) -> None:
    if offers := foreign_offers(context, name):
        interface = context.site.networks[name].interface
        raise HeadnodeError(
            f"another DHCP server answers on {interface}: {'; '.join(str(offer) for offer in offers)}",
            hint="two DHCP servers on one wire break both; find it, or move the nodes to a wire of their own",
        )
