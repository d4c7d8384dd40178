"""It boots from the network, but nothing arrives here: another VLAN, port or switch."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding, stuck


def look(view: View) -> Finding | None:
    tried = view.timeline.phases("pxe", "pxe error")
    if view.missing is not Stage.DHCP or not tried.events or not stuck(view, Stage.DHCP):
        return None
    sentence = "it boots from the network, but no request arrives here: wrong VLAN, wrong port, or a switch that blocks"
    return finding("wrong-network", sentence, MEDIUM, "headnode show {node}", tried)
