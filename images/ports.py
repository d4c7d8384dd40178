"""A node's network ports as its installed system should set them up, for netplan and systemd-networkd alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from headnode.model import Nic, Node
from headnode.site import Network, Site


@dataclass(frozen=True)
class Port:
    """One interface with an address, made of one or more NICs."""

    # The name in configuration files; the interface itself keeps the kernel's name unless it is a bond.
    id: str
    network: str
    nics: tuple[Nic, ...]
    address: str | None
    mtu: int
    gateway: str | None
    name_servers: tuple[str, ...]
    bond: str | None = None
    infiniband: bool = False
    # Whether the machine is up without it: only the network it was deployed over has to be there.
    optional: bool = True

    @property
    def interface(self) -> str:
        """Name of an InfiniBand port, which has no MAC that could be matched."""
        return self.nics[0].name or "ib0"

    def member(self, index: int) -> str:
        return f"{self.id}-{index}" if self.bond else self.id


def ports(site: Site, node: Node) -> list[Port]:
    by_network: dict[str, list[Nic]] = {}
    for nic in node.nics:
        if nic.network in site.networks and nic.network != "management":
            by_network.setdefault(nic.network, []).append(nic)
    return [port(site, name, nics) for name, nics in by_network.items()]


def port(site: Site, name: str, nics: Sequence[Nic]) -> Port:
    net = site.networks[name]
    bond = net.bond if len(nics) > 1 else None
    provision = name == "provision"
    return Port(
        # The kernel allows 15 characters for a bond's name.
        f"bond-{name}"[:15] if bond else name,
        name,
        tuple(nics) if bond else tuple(nics[:1]),
        with_prefix(net, nics),
        net.mtu,
        str(net.gateway) if net.gateway and provision else None,
        (str(net.head),) if provision and net.head else (),
        bond,
        net.type == "infiniband",
        optional=not provision,
    )


def with_prefix(net: Network, nics: Sequence[Nic]) -> str | None:
    address = next((nic.address for nic in nics if nic.address), None)
    return f"{address}/{net.cidr.prefixlen}" if address else None
