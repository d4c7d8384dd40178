"""It is or was too hot."""

import re

from headnode.model import Event
from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, MEDIUM, finding

HOT = re.compile(r"temp|thermal|overheat|PROCHOT", re.IGNORECASE)


def look(view: View) -> Finding | None:
    hot = [event for event in standing(view) if HOT.search(event.message)]
    if not hot:
        return None
    off = re.search(r"thermal trip|power off|non-recoverable", " ".join(e.message for e in hot), re.IGNORECASE)
    sure = HIGH if off or any(event.severity == "error" for event in hot) else MEDIUM
    return finding("too-hot", f"it is too hot: {hot[-1].message}", sure, "headnode sensors {node}", hot)


def standing(view: View) -> list[Event]:
    """Bad news of the BMC's sensors and log that no later good news of the same sensor has taken back."""
    news: dict[str, Event] = {}
    for event in view.timeline.kinds("sensor", "sel"):
        news[str(event.data.get("sensor") or event.message)] = event
    return [event for event in news.values() if event.severity != "info"]
