"""The kernel or the ramdisk it was told to fetch is not on the head node."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, finding


def look(view: View) -> Finding | None:
    missing = view.timeline.fetched("/ramdisk/", "/vmlinuz", "/initrd", good=False)
    if view.missing not in (Stage.KERNEL, Stage.RAMDISK) or not missing.events:
        return None
    sentence = "there is no ramdisk for it on the head node"
    return finding("ramdisk-missing", sentence, HIGH, "headnode image ramdisk", missing)
