"""The disk is there and has too little room."""

import re

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
WANTED = re.compile(r"\(min_size ([\d.]+)([KMGT])\): no disk fits")
HAS = re.compile(r"\(([\d.]+) ([KMGT])iB, [^)]*\) \[(?![^\]]*(?:removable|read-only|boot medium))")


def look(view: View) -> Finding | None:
    found = ended(
        view,
        r"(.+) is too small: (.+)|(image .+ needs .+ bytes unpacked.+)|(the swap file .+)|"
        r"(.*has no room for.*)|(.*cannot be arranged.*)",
    )
    if not found and not only_size_is_wrong(view.case.reason if ended(view, "") else ""):
        return None
    return finding(
        "disk-too-small",
        f"its disk is too small: {view.case.reason}",
        HIGH,
        "headnode deploy {node} --dry-run",
        view.case.failed,
    )


def only_size_is_wrong(text: str) -> bool:
    """A layout that asks for nothing but a size, and a machine all of whose disks have less."""
    wanted = WANTED.search(text)
    sizes = [float(number) * UNITS[unit] for number, unit in HAS.findall(text)]
    return bool(wanted and sizes) and max(sizes) < float(wanted[1]) * UNITS[wanted[2]]  # type: ignore[index]
