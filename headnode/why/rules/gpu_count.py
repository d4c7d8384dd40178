"""Fewer GPUs than there should be."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding
from headnode.why.rules import gpu_fell_off


def look(view: View) -> Finding | None:
    said = failed_check(view, "gpu pci", "gpu driver", "docker gpus")
    if said is None or failed_check(view, "gpu bars", "gpu versions") or gpu_fell_off.look(view):
        return None
    return finding(
        "gpu-count", f"not all GPUs are there: {said}", HIGH, "headnode sel {node}", view.timeline.last("verify")
    )
