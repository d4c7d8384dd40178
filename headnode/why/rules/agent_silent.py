"""The agent began and was not heard to the end."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding, stuck


def look(view: View) -> Finding | None:
    begun = view.timeline.last("agent.")
    if begun is None or not stuck(view, Stage.INVENTORY, Stage.PLAN, Stage.WORK):
        return None
    if view.case.failed and view.case.failed.actor != "reconcile":
        return None
    step = view.case.asked.step or begun.message
    sentence = f"the agent was last heard at '{step}': it hangs there, or the machine lost power or network"
    return finding("agent-silent", sentence, MEDIUM, "headnode console {node}", view.timeline.kinds("agent."))
