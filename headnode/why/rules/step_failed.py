"""A step of the plan failed, in the agent's own words."""

from headnode.why.case import Finding, View
from headnode.why.rule import MEDIUM, finding


def look(view: View) -> Finding | None:
    failed = view.case.failed
    if failed is None or failed.actor != "agent":
        return None
    return finding(
        "step-failed", f"the agent gave up: {view.case.reason}", MEDIUM, "headnode events {node} --limit 200", failed
    )
