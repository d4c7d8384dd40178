"""It fetched its script or kernel, and the rest never arrived."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding, stuck


def look(view: View) -> Finding | None:
    if not stuck(view, Stage.KERNEL, Stage.RAMDISK) or view.timeline.fetched("/ramdisk/", good=False).events:
        return None
    got = (*view.timeline.scripts(), *view.timeline.fetched("/vmlinuz"))
    if view.missing is Stage.KERNEL:
        sentence = "it fetched its boot script and no kernel: the boot program stopped there"
    else:
        sentence = "it fetched the kernel and not the whole ramdisk: too little memory, or the connection broke off"
    return finding(
        "fetch-stopped", sentence, MEDIUM, "headnode console {node}", got, view.timeline.kinds("console.phase")
    )
