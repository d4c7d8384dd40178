"""The image that arrived is not the one that was built."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, MEDIUM, ended, finding
from headnode.why.rules import no_space


def look(view: View) -> Finding | None:
    found = ended(view, r"the image (\S+) (is damaged|has \d+ bytes on the head node|could not be unpacked)")
    if not found or no_space.look(view):
        return None
    image = found[1].removeprefix("/images/").partition("/")[0]
    next = f"headnode image verify {image}"
    if found[2] == "could not be unpacked":
        return finding("image-damaged", view.case.reason, MEDIUM, next, view.case.failed)
    sentence = f"the image {image} on the head node is damaged: its checksum or size is not what was built"
    return finding("image-damaged", sentence, HIGH, next, view.case.failed)
