"""The BMC: no free session."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, LOW, before_any_boot, bmc_trouble, finding

STATUSES = ("no free session",)


def look(view: View) -> Finding | None:
    said = bmc_trouble(view, *STATUSES)
    if said is None:
        return None
    # A node that boots or runs does so without its BMC; then this is only worth a word.
    sure = HIGH if before_any_boot(view) else LOW
    sentence = "its BMC has no free session: other tools hold them all"
    return finding("bmc-sessions", sentence, sure, "headnode power status {node}", said)
