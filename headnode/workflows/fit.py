"""Does the site still fit the nodes that are enrolled? site.yaml can be edited long after they were."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address

from headnode import nodeset
from headnode.errors import InvalidSite
from headnode.model import Node, State
from headnode.site import Site
from headnode.workflows.addresses import special


def refuse_misfits(site: Site, nodes: Iterable[Node]) -> None:
    """A node whose profile or network is gone would be given defaults that nobody chose for it."""
    if found := misfits(site, nodes):
        raise InvalidSite(found, hint="put it back in site.yaml, or change the nodes with 'headnode set'")


def misfits(site: Site, nodes: Iterable[Node]) -> list[str]:
    """One sentence for everything that nodes rely on and the site no longer has. Pure."""
    found: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.state is not State.RETIRED:
            for problem in problems(site, node):
                found[problem].append(node.name)
    return [f"{problem}: {nodeset.fold(names)}" for problem, names in found.items()]


def problems(site: Site, node: Node) -> Iterator[str]:
    if node.profile not in site.profiles:
        yield f"the profile '{node.profile}' is not in site.yaml, and nodes have it"
    layout = node.settings.get("layout")
    if layout is not None and layout not in site.layouts:
        yield f"the layout '{layout}' is not in site.yaml, and nodes have it"
    for nic in node.nics:
        yield from address_problems(site, nic.network, nic.address)
    if node.bmc:
        yield from address_problems(site, "management", node.bmc.address)


def address_problems(site: Site, name: str, text: str | None) -> Iterator[str]:
    net = site.networks.get(name)
    if net is None:
        yield f"the network '{name}' is not in site.yaml, and nodes are on it"
        return
    address = IPv4Address(text) if text else None
    if address is None:
        return
    if address not in net.cidr:
        yield f"the network '{name}' is {net.cidr} in site.yaml, and nodes have addresses outside of it"
    elif meaning := special(net, address):
        yield f"in site.yaml {address} is {meaning} on the network '{name}', and a node has it"
