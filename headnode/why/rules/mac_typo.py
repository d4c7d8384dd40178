"""Unknown hardware asks whose MAC is the node's but for one digit: somebody mistyped."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, MEDIUM, finding


def look(view: View) -> Finding | None:
    node = view.case.node
    if node is None or node.mac is None or view.timeline.kinds("dhcp.").events or node.state == "up":
        return None
    for seen in view.case.sightings:
        wrong = differing(node.mac, seen.mac)
        if wrong and seen.last >= (view.case.asked.at or seen.last):
            sentence = f"its MAC is enrolled as {node.mac}, but {seen.mac} asks for an address: one digit differs"
            # A card's ports are numbered: the last digit may be the same card's next port.
            sure = HIGH if wrong != len(node.mac) - 1 else MEDIUM
            return finding("mac-typo", sentence, sure, f"headnode set {{node}} mac={seen.mac}")
    return None


def differing(one: str, other: str) -> int | None:
    """Where the only difference is; nothing when there are more, or none. Two digits in the wrong order count too."""
    places = [place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    if len(places) == 1:
        return places[0]
    swapped = len(places) == 2 and sorted(one) == sorted(other) and one[places[0]] == other[places[1]]
    return places[0] if swapped else None
