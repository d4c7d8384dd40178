"""After the work it comes back to the network again and again instead of starting from its disk."""

from headnode.why.case import Finding, Stage, View
from headnode.why.chain import installed
from headnode.why.rule import HIGH, MEDIUM, finding


def look(view: View) -> Finding | None:
    if view.missing is not Stage.REPORT:
        return None
    later = installed(view.case)
    scripts = later.scripts()
    # Firmware that asks once and is sent to the disk is as it should be.
    if len(scripts) < 2 or later.phases("login").events:
        return None
    sentence = (
        "it came back to the network instead of starting from its disk, again and again: boot "
        "order, or no loader on the disk"
    )
    return finding(
        "boot-loop",
        sentence,
        MEDIUM if later.phases("kernel").events else HIGH,
        "headnode bootdev disk {node} --persistent",
        scripts,
    )
