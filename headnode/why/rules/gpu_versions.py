"""Driver, library or Fabric Manager are of different versions."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "gpu versions")
    if said is None:
        return None
    return finding(
        "gpu-versions",
        f"the GPU driver's parts are of different versions: {said}",
        HIGH,
        "headnode deploy {node}",
        view.timeline.last("verify"),
    )
