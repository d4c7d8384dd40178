"""It asks for a first boot program that is not there."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding


def look(view: View) -> Finding | None:
    refused = view.timeline.kinds("tftp.failed").saying("could not fetch")
    if view.missing not in (Stage.LOADER, Stage.SCRIPT) or not refused.events:
        return None
    file = str(refused.events[-1].data.get("file", "")).rpartition("/")[2]
    sentence = f"it could not fetch {file} over TFTP: not there, or the transfer broke off"
    return finding("tftp-failed", sentence, MEDIUM, "headnode check", refused)
