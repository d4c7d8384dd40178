"""Many synthetic nodes at once: each gets its address, its boot script and one file, and none may be lost.

It runs in the namespace of its network: `ip netns exec NAMESPACE python -m headnode.lab.load …` prints one
JSON object.
"""

import argparse
import ipaddress
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import structlog

from headnode.errors import HeadnodeError
from headnode.lab.client import Client, Lease, acquire_all
from headnode.lab.fetch import FetchFailed, http_fetch
from headnode.run import run
from pxe.dhcp import Architecture

MOST_CLIENTS = 20_000


@dataclass(frozen=True)
class Report:
    clients: int
    leases: int
    addresses: int
    scripts: int
    files: int
    bytes: int
    dhcp_seconds: float
    fetch_seconds: float
    problems: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        return self.clients - min(self.leases, self.addresses, self.scripts, self.files)


def synthetic_mac(number: int) -> str:
    """The hardware address of the nth synthetic node, from 0; locally administered."""
    return (0x02_48_4E_00_00_00 + number).to_bytes(6, "big").hex(":")


def load(
    interface: str,
    count: int,
    *,
    server: str,
    script: str = "/boot",
    file: str = "/file",
    prefix: int = 16,
    window: int = 64,
    timeout: float = 120.0,
) -> Report:
    """DHCP for all, then each fetches the script and the file from its own address."""
    if not 0 < count <= MOST_CLIENTS:
        raise HeadnodeError(f"a load has 1 to {MOST_CLIENTS} clients, not {count}")
    clients = [Client(synthetic_mac(number), Architecture.UEFI_X64, ipxe=True) for number in range(count)]
    began = time.monotonic()
    leases = acquire_all(interface, clients, window=window, timeout=timeout)
    leased = time.monotonic()
    add_addresses(interface, leases, prefix)
    asked = time.monotonic()
    with ThreadPoolExecutor(window) as pool:
        fetched = list(pool.map(lambda lease: _fetch_both(server, lease.address, script, file), leases))
    return Report(
        clients=count,
        leases=len(leases),
        addresses=len({lease.address for lease in leases}),
        scripts=sum(one.script for one in fetched),
        files=sum(one.size >= 0 for one in fetched),
        bytes=sum(max(one.size, 0) for one in fetched),
        dhcp_seconds=round(leased - began, 3),
        fetch_seconds=round(time.monotonic() - asked, 3),
        problems=tuple(sorted({one.problem for one in fetched if one.problem})[:10]),
    )


def add_addresses(interface: str, leases: Sequence[Lease], prefix: int) -> None:
    """The leased addresses become this host's own, so that connections can come from them."""
    lines = [f"addr replace {ipaddress.IPv4Address(one.address)}/{prefix} dev {interface}\n" for one in leases]
    run(["ip", "-batch", "-"], input="".join(lines))


@dataclass(frozen=True)
class _Fetched:
    script: bool = False
    size: int = -1
    problem: str = ""


def _fetch_both(server: str, source: str, script: str, file: str) -> _Fetched:
    try:
        first = http_fetch(server, script, source=source)
        if first.status != 200:
            return _Fetched(problem=f"{script} answered {first.status}")
        second = http_fetch(server, file, source=source)
    except FetchFailed as error:
        return _Fetched(problem=error.message)
    if second.status != 200:
        return _Fetched(script=True, problem=f"{file} answered {second.status}")
    return _Fetched(script=True, size=len(second.body))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m headnode.lab.load", description=__doc__)
    parser.add_argument("--interface", default="eth0")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--server", required=True)
    parser.add_argument("--script", default="/boot")
    parser.add_argument("--file", default="/file")
    parser.add_argument("--prefix", type=int, default=16)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--timeout", type=float, default=120.0)
    asked = vars(parser.parse_args(argv))
    # Standard output is the report and nothing else.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        report = load(asked.pop("interface"), asked.pop("count"), **asked)
    except HeadnodeError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    sys.stdout.write(json.dumps({**asdict(report), "lost": report.lost}) + "\n")
    return 1 if report.lost else 0


if __name__ == "__main__":
    sys.exit(main())
