"""The ramdisk does not fit into its memory."""

import re

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, MEDIUM, finding, line, stuck

MEMORY = re.compile(
    r"[Oo]ut of memory|unpacking failed|write error|No working init|not enough memory|Cannot allocate", re.IGNORECASE
)
NEEDED = 1 << 30


def look(view: View) -> Finding | None:
    if view.missing not in (Stage.AGENT, Stage.RAMDISK) or not view.timeline.fetched("/initrd").events:
        return None
    panics = [event for event in view.timeline.phases("panic") if MEMORY.search(line(event))]
    if panics:
        sentence = "the ramdisk does not fit into its memory"
        return finding("ramdisk-too-large", sentence, HIGH, "headnode console {node}", panics)
    memory = int(view.case.hardware.get("memory_bytes") or 0)
    if 0 < memory < NEEDED and stuck(view, Stage.AGENT):
        sentence = f"it has {memory >> 20} MiB of memory, and the ramdisk needs {NEEDED >> 20} MiB"
        return finding(
            "ramdisk-too-large", sentence, MEDIUM, "headnode console {node}", view.timeline.fetched("/initrd")
        )
    return None
