"""Asking BMCs: headnode-bmc when it runs, whose sessions are open and who knows the nodes; else from this process.

With headnode-bmc running, neither the site nor the inventory is loaded here: that takes longer than the answers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headnode import bmclink
from headnode.bmclink import Answer
from headnode.errors import HeadnodeError

if TYPE_CHECKING:
    import socket

    from headnode.model import Node
    from headnode.workflows.context import Context

# An answer, and of how many it is one.
OnAnswer = Callable[[Answer, int], None]
Request = Mapping[str, Any]


def quietly(answer: Answer, total: int) -> None:
    """Nobody watches."""


def ask_set(context: "Context", text: str, request: Request, on_answer: OnAnswer = quietly) -> list[Answer]:
    """The answers of the nodes in a node set, in natural order."""
    with bmclink.connected(context.paths) as connection:
        if connection is not None:
            return through(connection, {**request, "nodeset": text}, on_answer)
    from headnode.workflows import choosing

    return ask_here(context, choosing.select(context, text), request, on_answer)


def ask(context: "Context", nodes: "Sequence[Node]", request: Request, on_answer: OnAnswer = quietly) -> list[Answer]:
    """Every node's answer, in the nodes' order."""
    with bmclink.connected(context.paths) as connection:
        if connection is not None:
            return through(connection, {**request, "names": [node.name for node in nodes]}, on_answer)
    return ask_here(context, nodes, request, on_answer)


def through(connection: "socket.socket", request: Request, on_answer: OnAnswer) -> list[Answer]:
    lines = bmclink.ask(connection, request)
    names = next(lines, {}).get("asking")
    if names is None:
        raise HeadnodeError("the running headnode-bmc is another version", hint="restart it, or 'headnode up'")
    answers: dict[str, Answer] = {}
    for answer in (Answer(**line) for line in lines):
        answers[answer.name] = answer
        on_answer(answer, len(names))
    return [answers[name] for name in names]


def ask_here(
    context: "Context", nodes: "Sequence[Node]", request: Request, on_answer: OnAnswer = quietly
) -> list[Answer]:
    """Ask from this process, with sessions that last as long as the question."""
    import asyncio

    from headnode.workflows import bmcs

    found = bmcs.targets(context, nodes)
    answers: dict[str, Answer] = {}

    def keep(answer: Answer) -> None:
        answers[answer.name] = answer
        on_answer(answer, len(nodes))

    async def work() -> None:
        async with bmcs.fleet_of(context.site) as fleet:
            for target in found:
                await fleet.add(target)
            async for answer in bmcs.perform(fleet, [target.name for target in found], request, context.paths):
                keep(answer)

    for answer in bmcs.unanswerable(nodes):
        keep(answer)
    if found:
        asyncio.run(work())
    return [answers[node.name] for node in nodes]
