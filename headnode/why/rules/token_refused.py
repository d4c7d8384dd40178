"""The agent runs, and the head node does not accept it."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import HIGH, finding


def look(view: View) -> Finding | None:
    refused = view.timeline.fetched("/token", "/node/v1/claim", good=False)
    if view.missing is not Stage.AGENT or not refused.events:
        return None
    sentence = (
        "the agent runs, but its token is refused: nothing is asked of this node any more, or "
        "another machine has its address"
    )
    return finding(
        "token-refused",
        sentence,
        HIGH,
        f"headnode {'inspect' if view.case.asked.what == 'inspect' else 'deploy'} {{node}}",
        refused,
    )
