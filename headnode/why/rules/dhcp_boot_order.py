"""It starts from something else than the network: its boot order."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, finding


def look(view: View) -> Finding | None:
    if view.missing is not Stage.DHCP:
        return None
    elsewhere = view.timeline.phases("boot loader", "kernel", "login", "grub rescue")
    if not elsewhere.events or view.timeline.phases("pxe", "pxe error").events:
        return None
    sentence = "it started from its disk without asking the network: the boot order has the disk first"
    return finding("boot-order", sentence, HIGH, "headnode bootdev pxe {node}", elsewhere)
