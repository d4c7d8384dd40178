"""The BMC: refused or bad answer or unsupported or fault or failed."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, LOW, before_any_boot, bmc_trouble, finding

STATUSES = ("refused", "bad answer", "unsupported", "fault", "failed")


def look(view: View) -> Finding | None:
    said = bmc_trouble(view, *STATUSES)
    if said is None:
        return None
    # A node that boots or runs does so without its BMC; then this is only worth a word.
    sure = HIGH if before_any_boot(view) else LOW
    sentence = f"its BMC could not do what it was asked: {said.message}"
    return finding("bmc-fault", sentence, sure, "headnode bmc show {node}", said)
