"""DHCP exchanges per second at 100, 1,000 and 10,000 hosts, Headnode's dnsmasq beside Kea 2.2 in the same run.

Both serve the same hosts, each with its fixed address, to the same clients in a network namespace. `cold`: every host
once, a few at a time, each asking again when it is not answered. `perfdhcp`: Kea's own load generator at the highest of
a few rates that loses less than 1 %. Needs root, dnsmasq, kea-dhcp4 and perfdhcp.

    .venv/bin/python -m bench.dhcp [--hosts 100,1000,10000]
"""

import argparse
import ipaddress
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence

from headnode import sitefile
from headnode.lab.client import Client, acquire_all
from headnode.lab.lab import Lab, lab
from headnode.lab.load import synthetic_mac
from headnode.lab.net import Namespace
from headnode.lab.process import Process
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


def start_ours(lab: Lab, head: Namespace, count: int, change: Callable[[str], str] = str) -> Process:
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
    config.write_text(change(config.read_text()))
    process = lab.start(head, "dnsmasq", ["dnsmasq", "--keep-in-foreground", f"--conf-file={config}"])
    process.wait_listening("udp", DHCP_PORT, 60)
    return process


def start_kea(lab: Lab, head: Namespace, count: int) -> Process:
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
    # The lease file is opened last.
    process.wait_until((place / "leases.csv").exists, 60, "start")
    time.sleep(1)
    return process


STARTERS = {"dnsmasq as Headnode runs it": start_ours, "kea-dhcp4": start_kea}


def measure(which: str, count: int, window: int) -> str:
    with lab(f"d{os.getpid():x}") as running:
        head, nodes = running.host("head"), running.host("nodes")
        wire = running.switch()
        wire.attach(head, "eth0", address="10.20.0.1/16")
        wire.attach(nodes, "eth0", address="10.20.255.1/16")
        STARTERS[which](running, head, count)
        clients = [Client(synthetic_mac(number)) for number in range(count)]
        with nodes.inside():
            acquire_all("eth0", clients[:1], timeout=20)
            began = time.monotonic()
            leases = acquire_all("eth0", clients, window=window, timeout=180)
            seconds = time.monotonic() - began
        sustained = perfdhcp(nodes, count)
    wrong = sum(lease.address != str(FIRST + int(lease.client.mac.replace(":", "")[6:], 16)) for lease in leases)
    lost = count - len(leases)
    return (
        f"{which:<28} {count:>6} hosts  cold {len(leases) / seconds:>6.0f}/s (lost {lost}, wrong address {wrong})  "
        f"perfdhcp {sustained:>6.0f}/s"
    )


def perfdhcp(nodes: Namespace, count: int, seconds: int = 3) -> float:
    """The highest rate of whole exchanges that loses less than 1 %."""
    best = 0.0
    for rate in (100, 200, 400, 800, 1600, 2400):
        argv = ["perfdhcp", "-4", "-l", "eth0", "-B", "-b", "mac=02:48:4e:00:00:00", "-R", str(count)]
        said = nodes.run([*argv, "-r", str(rate), "-p", str(seconds)], check=False, timeout=60).stdout
        reached = re.search(r"Rate: ([\d.]+) 4-way", said)
        drops = sum(int(number) for number in re.findall(r"^drops: (\d+)", said, re.MULTILINE))
        if reached is None or drops > 0.01 * rate * seconds:
            return best
        best = float(reached[1])
    return best


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="100,1000,10000")
    parser.add_argument("--window", type=int, default=32, help="clients that ask at the same time")
    asked = parser.parse_args(argv)
    for count in (int(word) for word in asked.hosts.split(",")):
        for which, program in zip(STARTERS, ("dnsmasq", "kea-dhcp4"), strict=True):
            print(measure(which, count, asked.window) if have(program) else f"{which}: not installed", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
