"""A GPU fell off the bus."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(
        view,
        "gpu errors",
        "gpu driver",
        "gpu pci",
        saying=r"fallen off the bus|xid 79|unable to determine the device handle|rev ff",
    )
    if said is None:
        return None
    return finding(
        "gpu-fell-off",
        f"a GPU has fallen off the bus: {said}",
        HIGH,
        "headnode power cycle {node}",
        view.timeline.last("verify"),
    )
