"""Why nodes are not where they should be: the question, for the command line and the web page alike."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from headnode import nodeset
from headnode.model import Event, Node, State
from headnode.nodeset import fold
from headnode.why.case import Answer, Finding
from headnode.why.engine import explain
from headnode.workflows import choosing
from headnode.workflows.context import Context
from headnode.workflows.evidence import Evidence


def why(context: Context, text: str, now: datetime | None = None) -> list[Answer]:
    """The answer for every node of a node set; names that nobody enrolled get one too."""
    evidence = Evidence(context, now)
    names = nodeset.expand(text, groups=groups(context, text))
    known = {node.name: node for node in context.inventory.nodes(names, retired=True)}
    if not names:
        choosing.select(context, text)
    return [
        explain(evidence.case(known[name]) if name in known else evidence.unknown(name))
        for name in sorted(names, key=nodeset.natural_key)
    ]


def groups(context: Context, text: str) -> dict[str, list[str]]:
    if not choosing.names_groups(text):
        return {}
    return {"all": context.inventory.names(), **context.inventory.groups()}


def why_node(context: Context, node: Node) -> Answer:
    """One node, for its page."""
    return explain(Evidence(context).case(node))


def in_words(context: Context, node: Node) -> str:
    """The cause as part of another sentence: what is known, or how far it got."""
    answer = explain(Evidence(context).case(replace(node, state=State.FAILED, reason="")))
    if answer.finding and answer.finding.cause != "failed":
        return answer.finding.sentence
    missing = next((step for step in answer.chain if not step.reached), None)
    return f"what did not happen: {missing.words}" if missing else "nothing more is known"


# These take one node: of several with the same trouble, the first is as good as any.
ONE_AT_A_TIME = ("headnode console ", "headnode rescue ")


def next_command(finding: Finding, names: Iterable[str]) -> str:
    chosen = list(names)
    return finding.next.replace("{node}", fold(chosen[:1] if finding.next.startswith(ONE_AT_A_TIME) else chosen))


def folded(answers: Sequence[Answer]) -> list[tuple[list[str], Answer]]:
    """Nodes with the same answer together; what is wrong first, the most nodes first."""
    alike: dict[tuple[bool, str], list[Answer]] = {}
    for answer in answers:
        alike.setdefault((answer.finding is None, answer.sentence), []).append(answer)
    ordered = sorted(alike.items(), key=lambda item: (item[0][0], -len(item[1])))
    return [([answer.name for answer in group], group[0]) for _, group in ordered]


def document(answer: Answer) -> dict[str, Any]:
    """As JSON, and for the API."""
    return {
        "name": answer.name,
        "state": answer.state,
        "asked": str(answer.asked),
        "asked_at": answer.asked.at.isoformat() if answer.asked.at else None,
        "wrong": answer.finding is not None,
        "sentence": answer.sentence,
        **(finding_document(answer.finding, answer.name) if answer.finding else {}),
        "chain": [
            {"stage": step.stage.value, "words": step.words, "reached": step.reached,
             "at": step.at.isoformat() if step.at else None}
            for step in answer.chain
        ],
        "missing": next((step.stage.value for step in answer.chain if not step.reached), None),
        "also": [{"sentence": f.sentence, **finding_document(f, answer.name)} for f in answer.others],
    }  # fmt: skip


def finding_document(finding: Finding, name: str) -> dict[str, Any]:
    return {
        "cause": finding.cause,
        "confidence": finding.confidence.value,
        "next": next_command(finding, [name]),
        "evidence": [event_document(event) for event in finding.evidence],
    }


def event_document(event: Event) -> dict[str, Any]:
    at = event.at.isoformat(timespec="seconds") if event.at else None
    return {"at": at, "kind": event.kind, "message": event.message, "severity": event.severity.value}
