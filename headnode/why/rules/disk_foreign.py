"""The disk holds something that is not this node's."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    found = ended(
        view,
        r"(?:serial '([^']+)')?\)?, (?:and it holds (?:what is not this node's|a kept volume)|"
        r"but at the last deployment it was the disk).*|the kept '.*it was not touched",
    )
    if not found:
        return None
    erase = f" --erase {found[1]}" if found[1] else ""
    return finding(
        "disk-foreign",
        f"nothing was erased: {view.case.reason}",
        HIGH,
        f"headnode deploy {{node}}{erase}",
        view.case.failed,
    )
