"""Its clock is not the cluster's: it said so itself, or the head node saw it."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "clock")
    if said is not None:
        return finding(
            "clock-off", f"its clock is off: {said}", HIGH, "headnode verify {node}", view.timeline.last("verify")
        )
    watched = view.timeline.last("clock")
    if watched is not None and watched.severity != "info":
        return finding("clock-off", watched.message, HIGH, "headnode verify {node}", watched)
    return None
