"""It has its address and then asks for nothing."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding, stuck


def look(view: View) -> Finding | None:
    if not stuck(view, Stage.LOADER) or view.timeline.fetched("", good=False).events:
        return None
    asked = view.timeline.kinds("dhcp.architecture").saying("http")
    door = "TCP port 80" if asked.events else "UDP port 69"
    sentence = (
        f"it got its address and never fetched the boot program: a firewall closes {door}, or its firmware gave up"
    )
    return finding(
        "no-loader", sentence, MEDIUM, "nft list ruleset", view.timeline.kinds("dhcp.ack", "dhcp.architecture")
    )
