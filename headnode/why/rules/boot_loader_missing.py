"""After the work its firmware or loader found nothing to start."""

import re

from headnode.why.case import Finding, Stage, View
from headnode.why.chain import installed
from headnode.why.rule import HIGH, finding, line

NOTHING = re.compile(
    r"[Nn]o bootable|No [Bb]oot|grub rescue|error: (?:no such|unknown|file)|Boot Failed|"
    r"could not start from its disk|Operating System not found",
    re.IGNORECASE,
)


def look(view: View) -> Finding | None:
    if view.missing not in (Stage.DISK, Stage.REPORT):
        return None
    later = installed(view.case)
    said = [e for e in later.kinds("console.phase") if e.data.get("phase") == "grub rescue" or NOTHING.search(line(e))]
    if not said or later.phases("kernel", "login").events:
        return None
    words = line(said[-1])
    sentence = "the boot loader on its disk was not found or does not work" + (f": {words}" if words else "")
    return finding("boot-loader-missing", sentence, HIGH, "headnode rescue {node}", said)
