"""It asked and got no answer, though it is enrolled: the DHCP server does not know it."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, MEDIUM, finding


def look(view: View) -> Finding | None:
    if view.missing is not Stage.ADDRESS:
        return None
    ignored, refused = view.timeline.kinds("dhcp.ignored"), view.timeline.kinds("dhcp.nak")
    if ignored.events:
        sentence = "it asked for an address and the DHCP server ignored it: its entry is not live"
        return finding("dhcp-refused", sentence, HIGH, "headnode publish --full", ignored)
    if refused.events:
        sentence = "its request for an address was refused: it insists on an address that is not its own"
        return finding("dhcp-refused", sentence, MEDIUM, "headnode power cycle {node}", refused)
    return None
