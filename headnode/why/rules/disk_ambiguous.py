"""More than one disk could be meant."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    if not ended(
        view,
        r"fits?, but exactly \d+ must|have the same serial number|by both '|"
        r"more than one volume that could be|could start from either",
    ):
        return None
    return finding(
        "disk-ambiguous",
        f"it is not certain which disk is meant: {view.case.reason}",
        HIGH,
        "headnode deploy {node} --dry-run",
        view.case.failed,
    )
