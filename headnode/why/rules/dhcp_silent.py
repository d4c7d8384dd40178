"""Nothing was heard of it at all since it was asked."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding, stuck


def look(view: View) -> Finding | None:
    if not stuck(view, Stage.DHCP, Stage.POWER) or view.case.asked.what == "nothing":
        return None
    # Its console says more than its silence.
    if view.timeline.phases("pxe", "pxe error", "boot loader", "kernel", "login").events:
        return None
    if view.missing is Stage.POWER and view.timeline.kinds("bmc.netboot", "bmc.power").events:
        return None
    since = "power-on" if view.reached is Stage.POWER else f"the {view.case.asked.what} was asked for"
    sentence = f"no DHCP request seen since {since}: cable, boot order or wrong VLAN"
    by_hand = view.case.node is not None and view.case.node.bmc is None
    if by_hand:
        sentence = "no DHCP request seen: not switched on, cable, boot order or wrong VLAN"
    next = "headnode seen" if by_hand else "headnode console {node}"
    return finding("no-dhcp", sentence, MEDIUM, next, view.timeline.kinds("bmc."), view.timeline.kinds("console.phase"))
