"""The record: what dnsmasq and nginx saw of a node becomes events of that node.

Parsing is pure. A node that asks again and again is one event with a count, not ten thousand rows.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headnode.model import Event, Severity

# The words after the program's name come from the wire, so lines are read from their beginning: a file name that looks
# like another node's line must not become that node's history.
LINE = re.compile(r"(?:([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) )?(dnsmasq(?:-[a-z]+)?)\[\d+\]: (.*)", re.DOTALL)
DHCP = re.compile(
    r"(?:\d+ )?(DHCP[A-Z]+)\(([^)]*)\) (?:(\d+\.\d+\.\d+\.\d+) )?([0-9a-f]{2}(?::[0-9a-f]{2}){5})(?: (.*))?"
)
TFTP_SENT = re.compile(r"sent (.+) to (\d+\.\d+\.\d+\.\d+)")
TFTP_FAILED = re.compile(r"(?:file (.+) not found for|failed sending (.+) to) (\d+\.\d+\.\d+\.\d+)")
LONGEST_TEXT = 200

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
    found = LINE.fullmatch(line)
    if not found:
        return None
    stamp, program, said = found.groups()
    at = moment(stamp, now)
    if program == "dnsmasq-dhcp":
        return from_dhcp(said, at)
    return from_tftp(said, at) if program == "dnsmasq-tftp" else None


def from_management(line: str, now: datetime) -> Observation | None:
    """The same on the management network, where it is the node's BMC that asks."""
    seen = from_dnsmasq(line, now)
    return replace(seen, kind=f"bmc.{seen.kind}", message=f"its BMC {seen.message}") if seen else None


def from_dhcp(said: str, at: datetime) -> Observation | None:
    found = DHCP.match(said)
    if not found:
        return None
    verb, interface, address, mac, rest = found.groups()
    if rest == "ignored":
        return Observation("dhcp.ignored", "asked for an address and got no answer", at, mac)
    message = WORDS.get(verb, verb).format(address=address or "an address")
    severity = Severity.WARNING if verb in ("DHCPNAK", "DHCPDECLINE") else Severity.INFO
    data = {"verb": verb, "interface": interface, "address": address, "mac": mac}
    return Observation(f"dhcp.{verb[4:].lower()}", message, at, mac, address, severity, data)


def from_tftp(said: str, at: datetime) -> Observation | None:
    if found := TFTP_SENT.fullmatch(said):
        path = harmless(found[1])
        message = f"fetched {path.rpartition('/')[2]} over TFTP"
        return Observation("tftp.sent", message, at, address=found[2], data={"file": path})
    if found := TFTP_FAILED.fullmatch(said):
        path = harmless(found[1] or found[2])
        message = f"could not fetch {path.rpartition('/')[2]} over TFTP"
        return Observation("tftp.failed", message, at, address=found[3], severity=Severity.WARNING, data={"file": path})
    return None


def from_nginx(line: str, now: datetime) -> Observation | None:
    try:
        said = json.loads(line)
        at = stamped(said["time"])
        path, agent = harmless(said["path"]), harmless(said.get("agent", ""))
        method, status, size = harmless(said["method"]), int(said["status"]), int(said["bytes"])
        address, seconds = str(said["address"]), float(said.get("seconds", 0))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    severity = Severity.INFO if status < 400 else Severity.WARNING
    data = {"method": method, "path": path, "status": status, "bytes": size, "seconds": seconds, "agent": agent}
    # How much came is not in the message: the same thing again is the same message, and is counted.
    return Observation("http", f"{method} {path}: {status}", at, address=address, severity=severity, data=data)


def stamped(value: object) -> datetime:
    """Seconds with milliseconds; lines from before an upgrade have the time in words."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return datetime.fromisoformat(str(value))


def harmless(value: object) -> str:
    """Words from the wire as they may stand in a database and on a terminal: bounded, control characters visible."""
    text = str(value)
    text = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def moment(stamp: str | None, now: datetime) -> datetime:
    """dnsmasq writes local time without a year; a stamp that would be in the future is from last year."""
    try:
        local = datetime.strptime(f"{now.astimezone().year} {stamp}", "%Y %b %d %H:%M:%S").astimezone()
        if local > now and (local - now).days > 1:
            local = local.replace(year=local.year - 1)
    except ValueError:
        return now
    return local.astimezone(UTC)


@dataclass
class Limiter:
    """Keeps one node's noise from filling the disk; what is held back is counted.

    The same thing again within `quiet` seconds is one event, and no node has more than `burst` events at once or
    `rate` a second in the long run, whatever it thinks of asking for.
    """

    quiet: float = 5.0
    burst: float = 200.0
    rate: float = 2.0
    most: int = 20_000
    held: "OrderedDict[tuple[str, str], tuple[float, int]]" = field(default_factory=OrderedDict)
    budgets: "OrderedDict[str, tuple[float, float, int]]" = field(default_factory=OrderedDict)

    def pass_on(self, node: str, seen: Observation) -> int | None:
        """How many were held back since the last one, or nothing when this one is held back too."""
        key = (node, f"{seen.kind} {seen.message}")
        at = seen.at.timestamp()
        last, count = self.held.pop(key, (0.0, 0))
        # A clock that was set back must not silence anybody for an hour.
        if abs(at - last) < self.quiet:
            self.held[key] = (last, count + 1)
            return None
        left_out = self.spend(node, at)
        if left_out is None:
            return None
        self.held[key] = (at, 0)
        while len(self.held) > self.most:
            self.held.popitem(last=False)
        return count + left_out

    def spend(self, node: str, at: float) -> int | None:
        """How many of the node's events were left out before this one, or nothing when its budget is used up."""
        left, since, left_out = self.budgets.pop(node, (self.burst, at, 0))
        left = min(self.burst, left + max(0.0, at - since) * self.rate)
        self.budgets[node] = (left - 1, at, 0) if left >= 1 else (left, at, left_out + 1)
        while len(self.budgets) > self.most:
            self.budgets.popitem(last=False)
        return left_out if left >= 1 else None


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
        message = f"{seen.message} (and {held} like it before)" if held else seen.message
        yield Event(seen.kind, message, "boot plane", "seen on the provision network", node, seen.severity,
                    dict(seen.data), seen.at)  # fmt: skip
