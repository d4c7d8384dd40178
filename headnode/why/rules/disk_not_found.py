"""The layout's disk is not in this machine."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    found = ended(view, r"(disks? .+?): no disk fits; this machine has (.+)")
    if not found or small(found[0]):
        return None
    return finding(
        "disk-not-found",
        f"no disk fits {found[1]}; it has {found[2]}",
        HIGH,
        "headnode deploy {node} --dry-run",
        view.case.failed,
    )


def small(text: str) -> bool:
    """Only its size keeps the machine's one disk from fitting: another rule's cause."""
    from headnode.why.rules.disk_too_small import only_size_is_wrong

    return only_size_is_wrong(text)
