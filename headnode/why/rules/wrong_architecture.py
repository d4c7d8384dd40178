"""The boot program or the profile is for another kind of machine."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, finding

FILES = {".kpxe": "bios", "arm64.efi": "arm64", ".efi": "x64"}


def look(view: View) -> Finding | None:
    told = view.timeline.last("dhcp.architecture")
    if view.missing not in (Stage.SCRIPT, Stage.KERNEL, Stage.RAMDISK, Stage.AGENT) or told is None:
        return None
    machine = str(told.data.get("architecture", ""))
    wanted = str(view.case.settings.get("architecture") or "x86_64")
    if ("arm64" in machine) != (wanted == "aarch64"):
        sentence = f"its profile is for {wanted}, but its firmware says {machine}"
        right = "aarch64" if "arm64" in machine else "x86_64"
        return finding("wrong-architecture", sentence, HIGH, f"headnode set {{node}} architecture={right}", told)
    sent = view.timeline.kinds("tftp.sent")
    for event in sent:
        kind = next((kind for end, kind in FILES.items() if str(event.data.get("file", "")).endswith(end)), "")
        if view.missing is Stage.SCRIPT and kind and kind not in machine:
            sentence = f"its firmware is {machine}, but it fetched a boot program for {kind}"
            return finding("wrong-architecture", sentence, HIGH, "headnode check", event, told)
    return None
