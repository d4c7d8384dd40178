"""Init: look at this machine and write a first site.yaml, with reasons. Nothing that exists is overwritten."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network

import templates
from headnode import authority, fields, sitefile, vault
from headnode.errors import HeadnodeError, InvalidField, InvalidInput
from headnode.files import write_new
from headnode.inventory import Inventory
from headnode.machine import Interface
from headnode.paths import Paths
from headnode.sitevalues import AddressRange

PROVISION = IPv4Network("10.20.0.0/16")
MANAGEMENT = IPv4Network("10.21.0.0/16")
# The answer of somebody who has no management network, as against one who has not said.
NONE = "-"


@dataclass(frozen=True)
class Proposal:
    """The answers a site file is written from; a value is empty until somebody has chosen it."""

    cluster: str = ""
    domain: str = ""
    provision_interface: str = ""
    provision: IPv4Network = PROVISION
    management_interface: str = ""
    management: IPv4Network = MANAGEMENT
    dns: tuple[IPv4Address, ...] = ()
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Split:
    """How a network is shared out."""

    cidr: IPv4Network
    head: IPv4Address
    nodes: AddressRange
    discovery: AddressRange


def refuse_existing(paths: Paths) -> None:
    if paths.site_file.exists():
        raise InvalidInput(
            f"{paths.site_file} exists already and is not overwritten",
            hint="edit it and run 'headnode site check', or move it away to start anew",
        )


def propose(given: Proposal, found: Sequence[Interface]) -> Proposal:
    """Fill in what was not given, and say why. Pure."""
    reasons: list[str] = []
    free = [interface for interface in found if interface.physical and not interface.default_route]
    free.sort(key=lambda interface: (not interface.carrier, interface.name))
    for interface in found:
        if interface.default_route:
            reasons.append(f"{interface.name} carries the default route, so it is never proposed for nodes.")
    provision_interface = given.provision_interface or next(
        (i.name for i in free if i.name != given.management_interface), ""
    )
    if provision_interface and not given.provision_interface:
        reasons.append(f"{provision_interface} is free and does not lead outside: proposed as provision network.")
    management_interface = given.management_interface or next(
        (i.name for i in free if i.name != provision_interface), ""
    )
    if management_interface and not given.management_interface:
        reasons.append(f"{management_interface} is free too: proposed as management network.")
    filled = replace(given, provision_interface=provision_interface, management_interface=management_interface)
    return replace(filled, reasons=tuple(reasons), warnings=tuple(warnings(filled, found)))


def warnings(given: Proposal, found: Sequence[Interface]) -> list[str]:
    known = {interface.name: interface for interface in found}
    said: list[str] = []
    for name in (given.provision_interface, given.management_interface):
        if name and name != NONE and name not in known:
            said.append(
                f"the interface {name} does not exist yet; 'headnode check' and 'headnode up' will insist on it"
            )
    for net in (given.provision, given.management):
        for interface in found:
            if interface.name in (given.provision_interface, given.management_interface):
                continue
            said += [
                f"{net} overlaps {other} on {interface.name}" for other in interface.networks if net.overlaps(other)
            ]
    return said


def refuse_unsafe(given: Proposal, found: Sequence[Interface]) -> None:
    if not given.provision_interface:
        raise InvalidInput(
            "no interface is free for the provision network; name one with --provision-interface",
            hint="'ip link' lists them; the one with the default route is never used",
        )
    safe_interface(given.provision_interface, found, field="provision-interface")
    if given.management_interface:
        safe_interface(given.management_interface, found, field="management-interface")


def safe_interface(name: str, found: Sequence[Interface], *, field: str) -> str:
    """DHCP on the interface to the rest of the world is how a head node takes an office down."""
    fields.interface_name(name, field=field)
    if any(i.name == name and i.default_route for i in found):
        expected = "it carries the default route, so DHCP there would reach machines that are not yours"
        raise InvalidField(field, name, f"{expected}; use another interface or a VLAN on it")
    return name


def split(net: IPv4Network) -> Split:
    """The head first, then room for fixed devices, nodes, and a small range for discovery at the end."""
    if net.num_addresses < 16:
        raise InvalidField("provision", str(net), "use a network of at least 16 addresses, such as 10.20.0.0/16")
    first, last = int(net.network_address), int(net.broadcast_address)
    lent = min(256, net.num_addresses // 8)
    below = 257 if net.num_addresses >= 4096 else max(2, min(10, net.num_addresses // 16))
    return Split(
        net,
        IPv4Address(first + 1),
        AddressRange(IPv4Address(first + below), IPv4Address(last - lent)),
        AddressRange(IPv4Address(last - lent + 1), IPv4Address(last - 1)),
    )


def site_text(given: Proposal) -> str:
    """The commented site.yaml."""
    if given.management_interface and given.provision.overlaps(given.management):
        raise InvalidField("management", str(given.management), f"it overlaps the provision network {given.provision}")
    if given.management.num_addresses < 4:
        raise InvalidField("management", str(given.management), "use a larger network, such as 10.21.0.0/16")
    return templates.render(
        "site/site.yaml.j2",
        given=given,
        provision=split(given.provision),
        # BMCs are numbered by hand, from the bottom; the head node keeps out of their way at the top.
        management_head=given.management.broadcast_address - 1,
        made_from=f"cluster {given.cluster}",
    )


def create(paths: Paths, given: Proposal) -> None:
    """Write everything; site.yaml last, so that an interrupted init can simply be run again."""
    refuse_existing(paths)
    text = site_text(given)
    parsed = sitefile.parse(text.encode(), str(paths.site_file))
    try:
        for directory, mode in (
            (paths.config, 0o755),
            (paths.state, 0o755),
            (paths.published, 0o755),
            (paths.logs, 0o755),
            (paths.runtime, 0o755),
        ):
            directory.mkdir(parents=True, exist_ok=True, mode=mode)
        vault.create_key(paths.secret_key)
        authority.create(paths.ca, given.cluster)
        Inventory.open(parsed.database.url, paths.database).close()
        # It may come to hold the password of a database.
        write_new(paths.site_file, text.encode(), 0o640)
    except OSError as error:
        raise HeadnodeError(
            f"{error.filename or paths.root} cannot be written: {error.strerror}",
            hint="run as root, or use --root",
        ) from error
