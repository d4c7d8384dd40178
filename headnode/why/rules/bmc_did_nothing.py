"""The BMC: said yes, did nothing."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, LOW, before_any_boot, bmc_trouble, finding

STATUSES = ("said yes, did nothing",)


def look(view: View) -> Finding | None:
    said = bmc_trouble(view, *STATUSES)
    if said is None:
        return None
    # A node that boots or runs does so without its BMC; then this is only worth a word.
    sure = HIGH if before_any_boot(view) else LOW
    sentence = "its BMC said yes to the power command and did nothing"
    return finding("bmc-did-nothing", sentence, sure, "headnode power cycle {node}", said)
