"""Its clock is not the cluster's."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "clock")
    if said is None:
        return None
    return finding(
        "clock-off", f"its clock is off: {said}", HIGH, "headnode verify {node}", view.timeline.last("verify")
    )
