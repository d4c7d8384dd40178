"""Fewer GPUs than there should be."""

from headnode.why.case import Finding, View
from headnode.why.rule import MEDIUM, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "gpu pci", "gpu driver", "docker gpus")
    if said is None or failed_check(view, "gpu bars", "gpu versions"):
        return None
    return finding(
        "gpu-count", f"not all GPUs are there: {said}", MEDIUM, "headnode sel list {node}", view.timeline.last("verify")
    )
