"""A network file system does not answer."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "nfs")
    if said is None:
        return None
    return finding(
        "nfs-hung",
        f"a network file system does not answer: {said}",
        HIGH,
        "headnode verify {node}",
        view.timeline.last("verify"),
    )
