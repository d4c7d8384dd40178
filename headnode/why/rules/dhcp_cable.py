"""Its network boot program says that there is no link."""

import re

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, finding, line

NO_LINK = re.compile(
    r"PXE-E61|[Mm]edia (?:test )?failure|check cable|[Nn]o (?:network )?(?:media|link)|Link:down|link down"
)


def look(view: View) -> Finding | None:
    if view.missing is not Stage.DHCP:
        return None
    said = [event for event in view.timeline.kinds("console.phase") if NO_LINK.search(line(event))]
    if not said:
        return None
    sentence = "its network port has no link: cable, switch port or transceiver"
    return finding("no-link", sentence, HIGH, "headnode console {node}", said)
