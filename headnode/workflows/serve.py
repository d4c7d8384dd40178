"""Bringing the services up: what has to be true before each may start."""

from headnode import machine
from headnode.errors import HeadnodeError
from headnode.services import Service, services
from headnode.supervisor import Supervisor
from headnode.workflows import publishing
from headnode.workflows.context import Context

PROBE_SECONDS = 3.0
SOCKETS = {"node-api": "node.sock", "bmc": "bmc.sock", "reconcile": "control.sock"}


def supervisor(context: Context, only: str | None = None) -> Supervisor:
    """All services with restarts, or one of them alone, for systemd to restart."""
    found = services(context.site, context.paths)
    if only is not None:
        found = [service for service in found if service.name == only]
        if not found:
            names = ", ".join(service.name for service in services(context.site, context.paths))
            raise HeadnodeError(f"there is no service '{only}'", hint=f"services here: {names}")
    return Supervisor(found, prepare=lambda service, first: prepare(context, service, first), restart=only is None)


def prepare(context: Context, service: Service, first: bool) -> None:
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
            require_interface(context, network)
            publishing.publish_changes(context)
            assets.install(context.paths)
            refuse_foreign_dhcp(context, network)
        context.paths.logs.mkdir(parents=True, exist_ok=True)
        dnsmasq.assemble(context.paths)
    elif service.name in SOCKETS:
        # A socket left by a killed process would look like readiness.
        context.paths.runtime.mkdir(parents=True, exist_ok=True)
        (context.paths.runtime / SOCKETS[service.name]).unlink(missing_ok=True)


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


def refuse_foreign_dhcp(context: Context, name: str) -> None:
    from pxe.probe import probe

    net = context.site.networks[name]
    if offers := probe(str(net.interface), PROBE_SECONDS, ours=[str(net.head)]):
        raise HeadnodeError(
            f"another DHCP server answers on {net.interface}: {'; '.join(str(offer) for offer in offers)}",
            hint="two DHCP servers on one wire break both; find it, or move the nodes to a wire of their own",
        )
