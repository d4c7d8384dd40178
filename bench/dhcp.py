"""DHCP exchanges per second at 100, 1,000 and 10,000 hosts, Headnode's dnsmasq beside Kea 2.2 in the same run.

Both serve the same hosts, each with its fixed address, in a network namespace; perfdhcp would have to be known to
neither, so the clients are headnode.lab's, the same for both. Needs root, dnsmasq and kea-dhcp4.

    .venv/bin/python -m bench.dhcp [--hosts 100,1000,10000]
"""

import argparse
import ipaddress
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from headnode import sitefile
from headnode.lab.client import Client, acquire_all
from headnode.lab.lab import Lab, lab
from headnode.lab.load import synthetic_mac
from headnode.lab.net import Namespace
from headnode.lab.servers import DHCP_PORT
from headnode.model import Nic, Node
from headnode.paths import Paths
from headnode.run import have
from pxe import dnsmasq

SITE = """
cluster: bench
domain: bench.lan
networks:
  provision: {cidr: 10.20.0.0/16, interface: eth0, head: 10.20.0.1, node_range: 10.20.1.0-10.20.250.255}
"""
FIRST = ipaddress.IPv4Address("10.20.1.0")


def hosts(count: int) -> list[Node]:
    return [Node(f"n{i:05d}", "x", (Nic(synthetic_mac(i), address=str(FIRST + i)),)) for i in range(count)]


def start_ours(lab: Lab, head: Namespace, count: int) -> None:
    """Headnode's own configuration and assembled host file, as 'headnode up' has them."""
    paths, site = Paths(lab.directory / f"ours{count}"), sitefile.parse(SITE.encode(), "site.yaml")
    producer = dnsmasq.Dnsmasq(paths)
    files = dict(producer.site_files(site))
    for node in hosts(count):
        files.update(producer.node_files(site, node))
    for name, file in files.items():
        path = paths.published / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
    for directory in (paths.logs, paths.tftp):
        directory.mkdir(parents=True)
    dnsmasq.assemble(paths)
    config = paths.published / "dnsmasq/provision.conf"
    process = lab.start(head, "dnsmasq", ["dnsmasq", "--keep-in-foreground", f"--conf-file={config}"])
    process.wait_listening("udp", DHCP_PORT, 60)


def start_kea(lab: Lab, head: Namespace, count: int) -> None:
    """Kea with host reservations in its configuration and leases in its memory file, which is its default."""
    place = lab.directory / f"kea{count}"
    place.mkdir()
    reservations = [
        {"hw-address": node.mac, "ip-address": node.address, "hostname": node.name} for node in hosts(count)
    ]
    subnet = {"id": 1, "subnet": "10.20.0.0/16", "reservations": reservations}
    config = {
        "Dhcp4": {
            "interfaces-config": {"interfaces": ["eth0"], "dhcp-socket-type": "raw"},
            "lease-database": {"type": "memfile", "persist": True, "name": str(place / "leases.csv")},
            "valid-lifetime": 43200,
            "subnet4": [subnet],
            "loggers": [{"name": "kea-dhcp4", "severity": "WARN", "output_options": [{"output": "stdout"}]}],
        }
    }
    (place / "kea.json").write_text(json.dumps(config))
    env = {"KEA_PIDFILE_DIR": str(place), "KEA_LOCKFILE_DIR": str(place)}
    process = lab.start(head, "kea", ["kea-dhcp4", "-c", place / "kea.json"], env=env)
    process.wait_until(lambda: "no lease" in process.last_words() or _leases_open(place), 60, "start")
    time.sleep(1)


def _leases_open(place: Path) -> bool:
    return (place / "leases.csv").exists()


STARTERS = {"dnsmasq as Headnode runs it": start_ours, "kea-dhcp4": start_kea}


def measure(which: str, count: int, window: int) -> str:
    with lab(f"d{os.getpid():x}") as running:
        head, nodes = running.host("head"), running.host("nodes")
        wire = running.switch()
        wire.attach(head, "eth0", address="10.20.0.1/16")
        wire.attach(nodes, "eth0")
        STARTERS[which](running, head, count)
        clients = [Client(synthetic_mac(number)) for number in range(count)]
        with nodes.inside():
            acquire_all("eth0", clients[:1], timeout=20)
            began = time.monotonic()
            leases = acquire_all("eth0", clients, window=window, timeout=180)
            seconds = time.monotonic() - began
    wrong = sum(lease.address != str(FIRST + int(lease.client.mac.replace(":", "")[6:], 16)) for lease in leases)
    lost = count - len(leases)
    return (
        f"{which:<28} {count:>6} hosts  {len(leases) / seconds:>8.0f} exchanges/s  lost {lost}, wrong address {wrong}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="100,1000,10000")
    parser.add_argument("--window", type=int, default=32, help="clients that ask at the same time")
    asked = parser.parse_args(argv)
    for count in (int(word) for word in asked.hosts.split(",")):
        for which, program in zip(STARTERS, ("dnsmasq", "kea-dhcp4"), strict=True):
            print(measure(which, count, asked.window) if have(program) else f"{which}: not installed", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        main(sys.argv[1:])
    shutil.rmtree(scratch, ignore_errors=True)
