"""Our offer was not taken, and no other server is known."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import LOW, finding, stuck


def look(view: View) -> Finding | None:
    offers = view.timeline.kinds("dhcp.offer")
    if not stuck(view, Stage.ADDRESS) or not offers.events:
        return None
    sentence = "it was offered its address and never took it: answers do not reach it, or another server was quicker"
    return finding("offer-not-taken", sentence, LOW, "headnode check", offers)
