"""What the node should be told was never made live."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, finding


def look(view: View) -> Finding | None:
    if view.case.node is None or view.case.published or view.missing is not Stage.PUBLISHED:
        return None
    sentence = "what it should do is not published, so the network tells it something older"
    return finding("not-published", sentence, HIGH, "headnode publish")
