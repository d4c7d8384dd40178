"""Somebody else's DHCP server was quicker."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, LOW, MEDIUM, finding


def look(view: View) -> Finding | None:
    if view.missing not in (Stage.ADDRESS, Stage.LOADER, Stage.SCRIPT, Stage.DHCP) or view.case.asked.what == "nothing":
        return None
    heard = [event for event in view.case.head.kinds("dhcp.foreign") if event.severity != "info"]
    servers = view.case.foreign or tuple(sorted({str(e.data.get("server", "")) for e in heard} - {""}))
    if not servers:
        return None
    offered = view.timeline.kinds("dhcp.offer").events and not view.timeline.kinds("dhcp.ack").events
    sentence = f"a foreign DHCP server answers {servers[0]}; the node took its answer instead of ours"
    if view.missing is Stage.DHCP:
        return finding("foreign-dhcp", f"a foreign DHCP server answers {servers[0]}", LOW, "headnode check", heard)
    return finding(
        "foreign-dhcp", sentence, HIGH if offered else MEDIUM, "headnode check", heard, view.timeline.kinds("dhcp.")
    )
