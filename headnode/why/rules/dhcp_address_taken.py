"""It declined its address because another machine uses it."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, finding


def look(view: View) -> Finding | None:
    declined = view.timeline.kinds("dhcp.decline")
    if not declined.events or view.missing is None:
        return None
    address = view.case.node.address if view.case.node else None
    sentence = f"another machine uses its address {address}"
    return finding("address-taken", sentence, HIGH, f"arping -D -c 3 {address}", declined)
