"""Who may have which address: handed out in order, never twice, never one that means something else."""

from collections.abc import Container, Iterable, Iterator
from ipaddress import IPv4Address

from headnode import fields
from headnode.errors import InvalidField, InvalidInput
from headnode.site import Network, Site


class Pool:
    """The free addresses of one network's node range, lowest first."""

    def __init__(self, network: Network, taken: Container[str]) -> None:
        self._network = network
        self._taken = taken
        self._reserved: set[str] = set()
        self._candidates = self._free()

    def reserve(self, addresses: Iterable[str]) -> None:
        self._reserved.update(addresses)

    def take(self, name: str, where: str) -> str | None:
        """The next free address; a network without a node range gives none, an exhausted one refuses."""
        found = next(self._candidates, None)
        if found is None and self._network.node_range is not None:
            raise InvalidInput(
                f"{where}: no address is left for {name} in {self._network.node_range}",
                hint="make node_range larger in site.yaml, or retire nodes that are gone",
            )
        return found

    def _free(self) -> Iterator[str]:
        net = self._network
        for address in net.node_range or ():
            text = str(address)
            if special(net, address) is None and text not in self._taken and text not in self._reserved:
                yield text


def special(net: Network, address: IPv4Address) -> str | None:
    """What an address means to the network itself, if anything."""
    whole = net.cidr
    if whole.prefixlen < 31 and address == whole.network_address:
        return "the network's own address"
    if whole.prefixlen < 31 and address == whole.broadcast_address:
        return "the broadcast address"
    if address == net.head:
        return "the head node's own address"
    if address == net.gateway:
        return "the gateway"
    if net.discovery_range is not None and address in net.discovery_range:
        return "in the discovery range"
    return None


def bmc_address(site: Site, text: str, where: str = "") -> str:
    net = site.management
    if net is None:
        raise InvalidField("bmc", text, "the site has no management network; add one to site.yaml", where=where)
    return usable(net, "management", text, "bmc", where)


def node_address(site: Site, text: str, where: str = "") -> str:
    return usable(site.provision, "provision", text, "address", where)


def usable(net: Network, name: str, text: str, field: str, where: str) -> str:
    address = IPv4Address(fields.ip_address(text, field=field, where=where))
    if address not in net.cidr:
        raise InvalidField(field, text, f"use an address of the {name} network {net.cidr}", where=where)
    if meaning := special(net, address):
        raise InvalidField(field, text, f"that is {meaning}; use another of {net.cidr}", where=where)
    return str(address)
