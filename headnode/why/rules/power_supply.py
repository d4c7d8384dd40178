"""A power supply failed or has no input."""

import re

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, MEDIUM, before_any_boot, finding
from headnode.why.rules.too_hot import standing

SUPPLY = re.compile(r"power supply|psu|input lost|AC lost|redundancy|PS\d", re.IGNORECASE)


def look(view: View) -> Finding | None:
    bad = [event for event in standing(view) if SUPPLY.search(event.message)]
    if not bad:
        return None
    return finding(
        "power-supply",
        f"a power supply is not well: {bad[-1].message}",
        HIGH if before_any_boot(view) else MEDIUM,
        "headnode sel {node}",
        bad,
    )
