"""The record: what dnsmasq and nginx saw of a node becomes events of that node.

Parsing is pure. A node that asks again and again is one event with a count, not ten thousand rows.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headnode.model import Event, Severity

DHCP = re.compile(
    r"dnsmasq-dhcp\[\d+\]: (?:\d+ )?(DHCP[A-Z]+)\(([^)]*)\) (?:(\d+\.\d+\.\d+\.\d+) )?([0-9a-f:]{17})(.*)"
)
TFTP_SENT = re.compile(r"dnsmasq-tftp\[\d+\]: sent (\S+) to (\d+\.\d+\.\d+\.\d+)")
TFTP_FAILED = re.compile(
    r"dnsmasq-tftp\[\d+\]: (?:file (\S+) not found for|failed sending (\S+) to) (\d+\.\d+\.\d+\.\d+)"
)
STAMP = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) ")

WORDS = {
    "DHCPDISCOVER": "asked for an address",
    "DHCPOFFER": "was offered {address}",
    "DHCPREQUEST": "requested {address}",
    "DHCPACK": "got {address}",
    "DHCPNAK": "was refused {address}",
    "DHCPDECLINE": "declined {address}: another machine uses it",
    "DHCPRELEASE": "gave {address} back",
}


@dataclass(frozen=True)
class Observation:
    """One line of a log, understood: who (by MAC or address), what, and when."""

    kind: str
    message: str
    at: datetime
    mac: str | None = None
    address: str | None = None
    severity: Severity = Severity.INFO
    data: Mapping[str, Any] = field(default_factory=dict)


def from_dnsmasq(line: str, now: datetime) -> Observation | None:
    at = moment(line, now)
    if found := DHCP.search(line):
        verb, interface, address, mac, rest = found.groups()
        if rest.strip() == "ignored":
            return Observation("dhcp.ignored", "asked for an address and got no answer", at, mac)
        message = WORDS.get(verb, verb).format(address=address or "an address")
        severity = Severity.WARNING if verb in ("DHCPNAK", "DHCPDECLINE") else Severity.INFO
        data = {"verb": verb, "interface": interface, "address": address, "mac": mac}
        return Observation(f"dhcp.{verb[4:].lower()}", message, at, mac, address, severity, data)
    if found := TFTP_SENT.search(line):
        name = found[1].rpartition("/")[2]
        return Observation("tftp.sent", f"fetched {name} over TFTP", at, address=found[2], data={"file": found[1]})
    if found := TFTP_FAILED.search(line):
        name = found[1] or found[2]
        message = f"could not fetch {name.rpartition('/')[2]} over TFTP"
        return Observation("tftp.failed", message, at, address=found[3], severity=Severity.WARNING, data={"file": name})
    return None


def from_nginx(line: str, now: datetime) -> Observation | None:
    try:
        said = json.loads(line)
        at = datetime.fromisoformat(said["time"])
        method, path, status = str(said["method"]), str(said["path"])[:200], int(said["status"])
        address, size = str(said["address"]), int(said["bytes"])
    except (ValueError, KeyError, TypeError):
        return None
    severity = Severity.INFO if status < 400 else Severity.WARNING
    message = f"{method} {path}: {status}, {size} bytes"
    return Observation("http", message, at, address=address, severity=severity, data=said)


def moment(line: str, now: datetime) -> datetime:
    """dnsmasq writes local time without a year; a stamp that would be in the future is from last year."""
    found = STAMP.match(line)
    if not found:
        return now
    try:
        local = datetime.strptime(f"{now.astimezone().year} {found[1]}", "%Y %b %d %H:%M:%S").astimezone()
    except ValueError:
        return now
    if local > now and (local - now).days > 1:
        local = local.replace(year=local.year - 1)
    return local.astimezone(UTC)


@dataclass
class Limiter:
    """At most one event for the same thing within `quiet` seconds; what was held back is counted."""

    quiet: float = 5.0
    most: int = 20_000
    held: "OrderedDict[tuple[str, str], tuple[float, int]]" = field(default_factory=OrderedDict)

    def pass_on(self, node: str, seen: Observation) -> int | None:
        """How many were held back since the last one, or nothing when this one is held back too."""
        key = (node, f"{seen.kind} {seen.message}")
        at = seen.at.timestamp()
        last, count = self.held.pop(key, (0.0, 0))
        if at - last < self.quiet:
            self.held[key] = (last, count + 1)
            return None
        self.held[key] = (at, 0)
        while len(self.held) > self.most:
            self.held.popitem(last=False)
        return count


@dataclass(frozen=True)
class Owners:
    macs: Mapping[str, str]
    addresses: Mapping[str, str]

    def of(self, seen: Observation) -> str | None:
        return self.macs.get(seen.mac or "") or self.addresses.get(seen.address or "")


def events(observations: Iterable[Observation], owners: Owners, limiter: Limiter) -> Iterator[Event]:
    """Observations of known nodes as events; unknown hardware is not here (see headnode/workflows/discovery.py)."""
    for seen in observations:
        node = owners.of(seen)
        if node is None:
            continue
        held = limiter.pass_on(node, seen)
        if held is None:
            continue
        message = f"{seen.message} (and {held} times before)" if held else seen.message
        yield Event(seen.kind, message, "boot plane", "seen on the provision network", node, seen.severity,
                    dict(seen.data), seen.at)  # fmt: skip
