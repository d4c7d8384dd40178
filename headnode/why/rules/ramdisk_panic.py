"""Its kernel gave up before the agent ran."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding, line


def look(view: View) -> Finding | None:
    panics = view.timeline.phases("panic")
    if view.missing is not Stage.AGENT or not panics.events:
        return None
    words = line(panics.events[-1])
    sentence = "its kernel gave up before the agent ran" + (f": {words}" if words else "")
    return finding("kernel-panic", sentence, MEDIUM, "headnode console {node}", panics)
