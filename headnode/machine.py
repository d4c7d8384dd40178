"""What this machine looks like: its network interfaces, and which of them leads to the rest of the world."""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network


@dataclass(frozen=True)
class Interface:
    name: str
    mac: str
    up: bool
    carrier: bool
    default_route: bool
    physical: bool
    addresses: tuple[IPv4Interface, ...] = ()

    @property
    def networks(self) -> tuple[IPv4Network, ...]:
        return tuple(address.network for address in self.addresses)


# Kinds of interface that software makes; a cluster is cabled to the others (and to VLANs and bonds on them).
VIRTUAL = frozenset({"bridge", "dummy", "veth", "tun", "ifb", "wireguard", "vxlan", "gre", "ipip", "sit", "ip6tnl"})


def interfaces() -> list[Interface]:
    """All interfaces but the loopback, as the kernel lists them."""
    from pyroute2 import IPRoute

    with IPRoute() as kernel:
        leaving = {
            route.get_attr("RTA_OIF")
            for route in kernel.get_routes(family=2)
            if route["dst_len"] == 0 and route.get_attr("RTA_OIF") is not None
        }
        addresses: dict[int, list[IPv4Interface]] = {}
        for entry in kernel.get_addr(family=2):
            local = entry.get_attr("IFA_LOCAL") or entry.get_attr("IFA_ADDRESS")
            addresses.setdefault(entry["index"], []).append(IPv4Interface(f"{local}/{entry['prefixlen']}"))
        return [describe(link, addresses, leaving) for link in kernel.get_links() if not link["flags"] & 0x8]


def describe(link: object, addresses: dict[int, list[IPv4Interface]], leaving: set[int]) -> Interface:
    get = link.get_attr  # type: ignore[attr-defined]
    index = link["index"]  # type: ignore[index]
    info = get("IFLA_LINKINFO")
    kind = info.get_attr("IFLA_INFO_KIND") if info is not None else None
    return Interface(
        name=str(get("IFLA_IFNAME")),
        mac=str(get("IFLA_ADDRESS") or ""),
        up=bool(link["flags"] & 1),  # type: ignore[index]
        carrier=bool(get("IFLA_CARRIER")),
        default_route=index in leaving,
        physical=kind not in VIRTUAL,
        addresses=tuple(addresses.get(index, ())),
    )


def answers(address: str, port: int, timeout: float = 1.0) -> bool:
    """Whether anybody accepts connections there."""
    try:
        with socket.create_connection((address, port), timeout):
            return True
    except OSError:
        return False
