"""A GPU reports memory or link errors."""

from headnode.why.case import Finding, View
from headnode.why.rule import MEDIUM, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "gpu errors", "gpu nvlink", "gpu cuda")
    if said is None:
        return None
    return finding(
        "gpu-errors",
        f"a GPU is not healthy: {said}",
        MEDIUM,
        "headnode verify {node} --burn-in 10m",
        view.timeline.last("verify"),
    )
