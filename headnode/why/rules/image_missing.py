"""The image is not on the head node, or cannot be fetched."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    if not ended(view, r"the image \S+ (?:is not on the head node|could not be downloaded)|there is no image"):
        return None
    return finding(
        "image-missing",
        f"the image cannot be fetched: {view.case.reason}",
        HIGH,
        "headnode image list",
        view.case.failed,
    )
