"""A network port is down or slower than it should be."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "link", "infiniband")
    if said is None:
        return None
    return finding(
        "link-wrong",
        f"a network port is not as it should be: {said}",
        HIGH,
        "headnode show {node}",
        view.timeline.last("verify"),
    )
