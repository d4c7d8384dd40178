"""Somebody else's DHCP server on the wire: a dnsmasq that answers everyone, in a namespace of its own."""

from dataclasses import dataclass
from ipaddress import IPv4Interface

from headnode.lab.lab import Lab
from headnode.lab.net import Switch
from headnode.lab.process import Process
from headnode.lab.servers import start_dnsmasq

LINK = "eth0"


@dataclass(frozen=True)
class Rogue:
    address: str
    mac: str
    boot_file: str
    process: Process
    port: str

    def stop(self) -> None:
        self.process.stop()

    def remove(self, switch: Switch) -> None:
        """Stop it and pull its cable."""
        self.stop()
        switch.remove(self.port)


def start_rogue(
    lab: Lab,
    switch: Switch,
    *,
    role: str = "rogue",
    address: str = "10.66.0.1/24",
    mac: str = "52:54:00:66:00:01",
    boot_file: str = "rogue.0",
) -> Rogue:
    """Attach the server and start it; it offers the upper half of its own network."""
    host = lab.host(role)
    port = switch.attach(host, LINK, mac=mac, address=address)
    own = IPv4Interface(address)
    first = own.network.network_address + own.network.num_addresses // 2
    last = own.network.broadcast_address - 1
    lines = [f"interface={LINK}", f"dhcp-range={first},{last},5m", "dhcp-authoritative", "no-ping"]
    process = start_dnsmasq(lab, host, role, [*lines, *([f"dhcp-boot={boot_file}"] if boot_file else [])])
    return Rogue(str(own.ip), mac, boot_file, process, port)
