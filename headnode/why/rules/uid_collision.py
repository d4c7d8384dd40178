"""A local account shadows one of the directory, or UIDs differ."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, failed_check, finding


def look(view: View) -> Finding | None:
    said = failed_check(view, "passwd ", "group ", "local accounts")
    if said is None:
        return None
    return finding(
        "uid-collision",
        f"users are not the same as everywhere: {said}",
        HIGH,
        "headnode verify {node}",
        view.timeline.last("verify"),
    )
