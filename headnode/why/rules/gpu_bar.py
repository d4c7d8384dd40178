"""The firmware found no room for a GPU's memory window."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "gpu bars")
    if said is None:
        return None
    return finding(
        "gpu-bar",
        f"a GPU has no room in the address space (BAR unassigned): {said}",
        HIGH,
        "headnode set {node} kernel_args=pci=realloc",
        view.timeline.last("verify"),
    )
