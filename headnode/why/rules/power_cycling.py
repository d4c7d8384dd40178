"""It starts the ramdisk again and again without finishing: it restarts by itself."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, finding


def look(view: View) -> Finding | None:
    claims = view.timeline.kinds("agent.claimed")
    if len(claims) < 3 or view.timeline.kinds("deployed", "inspected").events:
        return None
    sentence = f"it restarted by itself: the ramdisk began {len(claims)} times and never finished"
    return finding("power-cycling", sentence, HIGH, "headnode sel {node}", claims, view.timeline.kinds("sel").bad())
