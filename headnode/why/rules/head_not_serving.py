"""The head node's own services do not run."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, before_any_boot, finding


def look(view: View) -> Finding | None:
    if view.case.serving is not False or not before_any_boot(view) or view.case.asked.what == "nothing":
        return None
    return finding("head-not-serving", "the head node's services do not run, so nobody answers it", HIGH, "headnode up")
