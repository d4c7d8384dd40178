"""The head node's own services do not run."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, finding


def look(view: View) -> Finding | None:
    if view.case.serving is not False or view.missing is not Stage.DHCP or view.case.asked.what == "nothing":
        return None
    return finding("head-not-serving", "the head node's services do not run, so nobody answers it", HIGH, "headnode up")
