"""UEFI's boot order: the network stays first, so that the head node goes on deciding what a node boots."""

import re
from dataclasses import dataclass

from .runner import Log, ask, run

ENTRY = re.compile(r"^Boot([0-9A-Fa-f]{4})(\*?) (.*)$")
NETWORK = re.compile(r"\b(PXE|HTTP|IPv4|IPv6|MAC\(|Network)\b|MAC\(", re.IGNORECASE)


@dataclass(frozen=True)
class BootVariables:
    current: str = ""
    order: tuple[str, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()


def parse(text: str) -> BootVariables:
    """What efibootmgr prints; lines it does not know are passed over."""
    current, order = "", tuple[str, ...]()
    entries: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("BootCurrent:"):
            current = line.split(":", 1)[1].strip().upper()
        elif line.startswith("BootOrder:"):
            order = tuple(number.strip().upper() for number in line.split(":", 1)[1].split(",") if number.strip())
        elif found := ENTRY.match(line):
            entries.append((found[1].upper(), found[3].strip()))
    return BootVariables(current, order, tuple(entries))


def network_first(variables: BootVariables) -> tuple[str, ...]:
    """The order as it should be: the network entry that this boot came from, then all others as they were.

    Where the firmware does not say where it came from, the first network entry of the order is taken.
    """
    network = {number for number, name in variables.entries if NETWORK.search(name)}
    chosen = variables.current if variables.current in network else ""
    chosen = chosen or next((number for number in variables.order if number in network), "")
    if not chosen:
        return variables.order
    return (chosen, *(number for number in variables.order if number != chosen))


def repair(log: Log) -> str:
    """Put the order right; returns a sentence when it was changed or could not be."""
    variables = parse(ask(["efibootmgr"]))
    wanted = network_first(variables)
    if not wanted or wanted == variables.order:
        return ""
    output = run(["efibootmgr", "--bootorder", ",".join(wanted)])
    log.write(f"efibootmgr --bootorder {','.join(wanted)}\n{output.stderr}")
    if output.code != 0:
        return f"the UEFI boot order could not be changed: {output.stderr.strip()[:200]}"
    return f"the UEFI boot order is now {', '.join(wanted)}: network first"
