"""A GPU reports memory or link errors."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding
from headnode.why.rules import gpu_count, gpu_fell_off


def look(view: View) -> Finding | None:
    said = failed_check(view, "gpu errors", "gpu nvlink", "gpu cuda")
    if (
        said is None
        or failed_check(view, "gpu versions", "gpu bars")
        or gpu_fell_off.look(view)
        or gpu_count.look(view)
    ):
        return None
    return finding(
        "gpu-errors",
        f"a GPU is not healthy: {said}",
        HIGH,
        "headnode verify {node} --burn-in 10m",
        view.timeline.last("verify"),
    )
