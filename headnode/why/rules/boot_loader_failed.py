"""The boot loader could not be written."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    if not ended(view, r"grub-install|grub-mkimage|efibootmgr|bootctl"):
        return None
    return finding(
        "boot-loader",
        f"the boot loader could not be installed: {view.case.reason}",
        HIGH,
        "headnode rescue {node}",
        view.case.failed,
    )
