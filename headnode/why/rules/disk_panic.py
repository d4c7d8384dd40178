"""The installed system's kernel gave up."""

from headnode.why.case import Finding, Stage, View
from headnode.why.chain import installed
from headnode.why.rule import HIGH, finding, line


def look(view: View) -> Finding | None:
    later = installed(view.case)
    panics = later.phases("panic")
    if view.missing not in (Stage.DISK, Stage.REPORT) or not panics.events:
        return None
    words = line(panics.events[-1])
    sentence = "the installed system's kernel gave up" + (f": {words}" if words else "")
    return finding("system-panic", sentence, HIGH, "headnode console {node}", panics)
