"""How long DHCP is silent while 10,000 hosts are read anew: one file or a directory, leases in a file or not.

A client asks all the time while dnsmasq is told to read its hosts again; the longest pause between answers is the gap.
The time to effect of one more node is counted from the moment its small file is there, assembling included.

    .venv/bin/python -m bench.reload [--hosts 10000]
"""

import argparse
import itertools
import os
import signal
import threading
import time
from functools import partial

from bench.dhcp import SITE, hosts, start_ours
from headnode import sitefile
from headnode.lab.client import Client, acquire_all, offers
from headnode.lab.lab import lab
from headnode.lab.load import synthetic_mac
from headnode.lab.net import Namespace
from headnode.paths import Paths
from pxe import dnsmasq

VARIANTS = ("one file, leasefile-ro", "one file, lease file", "directory, leasefile-ro")


def changed(config: str, variant: str, paths: Paths) -> str:
    if "directory" in variant:
        config = config.replace(f"dhcp-hostsfile={paths.runtime}/dnsmasq/provision.hosts",
                                f"dhcp-hostsdir={paths.published}/{dnsmasq.PROVISION_HOSTS}")  # fmt: skip
    return config.replace("leasefile-ro", f"dhcp-leasefile={paths.logs}/leases") if "lease file" in variant else config


def gap(nodes: Namespace, pid: int) -> float:
    """The longest wait for an answer while it reads."""
    answered: list[float] = []
    done = threading.Event()

    def ask() -> None:
        with nodes.inside():
            while not done.is_set():
                acquire_all("eth0", [Client(synthetic_mac(0))], timeout=10)
                answered.append(time.monotonic())

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(1)
    os.kill(pid, signal.SIGHUP)
    time.sleep(4)
    done.set()
    thread.join()
    return max(after - before for before, after in itertools.pairwise(answered))


def effect(nodes: Namespace, paths: Paths, pid: int, count: int) -> tuple[float, float]:
    """Seconds of assembling, and until the new node is offered its address."""
    new = hosts(count + 1)[-1]
    # As in a running head node, which has read the others before.
    dnsmasq.assemble(paths)
    began = time.monotonic()
    for name, file in dnsmasq.Dnsmasq(paths).node_files(sitefile.parse(SITE.encode(), "site.yaml"), new).items():
        (paths.published / name).write_bytes(file.content)
    dnsmasq.assemble(paths)
    assembled = time.monotonic() - began
    os.kill(pid, signal.SIGHUP)
    with nodes.inside():
        acquire_all("eth0", [Client(str(new.mac))], timeout=20)
    return assembled, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=10_000)
    count = parser.parse_args().hosts
    for variant in VARIANTS:
        with lab(f"r{os.getpid():x}") as running:
            head, nodes, wire = running.host("head"), running.host("nodes"), running.switch()
            wire.attach(head, "eth0", address="10.20.0.1/16")
            wire.attach(nodes, "eth0")
            paths = Paths(running.directory / f"ours{count}")
            pid = start_ours(running, head, count, partial(changed, variant=variant, paths=paths)).pid
            with nodes.inside():
                began = time.monotonic()
                got = acquire_all("eth0", [Client(synthetic_mac(i)) for i in range(300)], window=16, timeout=60)
                rate = len(got) / (time.monotonic() - began)
                assert offers("eth0", Client("52:54:00:99:99:99"), 1) == []
            silent = gap(nodes, pid)
            assembled, whole = effect(nodes, paths, pid, count)
        print(f"{variant:<26} {rate:>6.0f} exchanges/s   gap {silent:.2f} s   a new node after {whole:.2f} s "
              f"(assembling {assembled:.2f} s)", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
