"""Layout and firmware do not go together."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    if not ended(view, r"this machine starts by (BIOS|UEFI), and layout|do not say whether this machine starts"):
        return None
    return finding("layout-firmware", view.case.reason, HIGH, "headnode set {node} layout=LAYOUT", view.case.failed)
