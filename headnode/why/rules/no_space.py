"""A file system ran full while it was being written."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    if not ended(view, r"No space left on device|file systems are too small|Wrote only \d+ of \d+ bytes"):
        return None
    return finding(
        "no-space",
        f"a file system ran full: {view.case.reason}",
        HIGH,
        "headnode deploy {node} --dry-run",
        view.case.failed,
    )
