"""Kernel and ramdisk arrived, and the agent was never heard."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding, stuck


def look(view: View) -> Finding | None:
    if not stuck(view, Stage.AGENT) or view.timeline.phases("panic").events or refused(view):
        return None
    got = view.timeline.fetched("/initrd")
    sentence = (
        "it fetched kernel and ramdisk, and the agent was never heard: a driver or firmware for "
        "its network card is missing"
    )
    return finding("no-agent", sentence, MEDIUM, "headnode console {node}", got, view.timeline.phases("kernel"))


def refused(view: View) -> bool:
    return bool(view.timeline.fetched("/token", "/node/v1/claim", good=False).events)
