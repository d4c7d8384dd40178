"""The image that arrived is not the one that was built."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, ended, finding


def look(view: View) -> Finding | None:
    found = ended(view, r"the image (\S+) (?:is damaged|has \d+ bytes on the head node|could not be unpacked)")
    if not found:
        return None
    image = found[1].removeprefix("/images/").partition("/")[0]
    return finding(
        "image-damaged",
        f"the image is damaged: {view.case.reason}",
        HIGH,
        f"headnode image verify {image}",
        view.case.failed,
    )
