"""From a case to an answer. Pure: the same case, the same answer."""

from headnode.model import State
from headnode.why.case import Answer, Case, Finding, Stage, View
from headnode.why.chain import RECOGNISERS, chain
from headnode.why.rules import RULES


def explain(case: Case) -> Answer:
    if case.forgotten:
        return remembered(case)
    view = View(case, chain(case))
    state = case.node.state.value if case.node else "not enrolled"
    # Every rule is asked; a stable sort keeps the order of their names among equals.
    found = sorted((f for rule in RULES if (f := rule(view))), key=lambda finding: finding.confidence.rank)
    best = found[0] if found else None
    others = tuple(finding for finding in found[1:] if finding.cause != getattr(best, "cause", None))
    return Answer(case.name, state, case.asked, view.chain, best or unexplained(view), others, words(view))


def remembered(case: Case) -> Answer:
    """Of what is long ago only how it ended is known; no rule may take forgotten steps for steps never made."""
    view = View(case, ())
    state = case.node.state.value if case.node else "not enrolled"
    return Answer(case.name, state, case.asked, (), unexplained(view), (), words(view))


def words(view: View) -> str:
    """What is said when nothing is wrong."""
    node = view.case.node
    if node is None:
        return "not enrolled"
    if node.state is State.MAINTENANCE:
        return "nothing wrong: it is in maintenance" + (f" ({node.reason})" if node.reason else "")
    if node.state is State.RETIRED:
        return "nothing: it is retired"
    if node.state is State.UP:
        return "nothing wrong"
    if view.case.asked.what == "nothing":
        return "nothing wrong: nothing has been asked of it yet"
    if view.missing is None:
        return f"nothing wrong: it is {node.state}"
    return f"nothing wrong so far: it is {node.state}, next it {RECOGNISERS[view.missing].words}"


def unexplained(view: View) -> Finding | None:
    """A failure that no rule knows is still a failure, with its own reason."""
    from headnode.why.rule import LOW, MEDIUM, finding

    node = view.case.node
    if node is None or node.state is not State.FAILED:
        return None
    where = RECOGNISERS[view.missing].words if view.missing else "the end"
    sentence = node.reason or f"it failed, and it was not said why; what did not happen: {where}"
    if view.case.forgotten:
        sentence += " (the steps before it are too long ago, and were forgotten)"
    confidence = MEDIUM if node.reason and view.missing not in (Stage.DHCP, None) else LOW
    return finding("failed", sentence, confidence, "headnode events {node} --limit 200", view.timeline.last("failed"))
