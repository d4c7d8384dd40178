"""A check of the report did not pass, and no other rule knows more about it."""

from headnode.why.case import Finding, View
from headnode.why.rule import MEDIUM, checks, finding


def look(view: View) -> Finding | None:
    wrong = checks(view)
    if not wrong:
        return None
    said = "; ".join(f"{check.get('name')}: {check.get('message')}" for check in wrong[:3])
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return finding(
        "check-failed",
        f"it is not what was asked for: {said}{more}",
        MEDIUM,
        "headnode verify {node}",
        view.timeline.last("verify"),
    )
