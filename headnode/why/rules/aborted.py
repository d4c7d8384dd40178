"""Somebody stopped it."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    if not ended(view, r"^aborted by "):
        return None
    return finding(
        "aborted", f"it was {view.case.reason}", HIGH, f"headnode {view.case.asked.what} {{node}}", view.case.failed
    )
