"""Changing BMC passwords so that no interruption can lock anybody out.

The new password is sealed and written down before the BMC hears of it, and takes the old one's place only when a login
with it has succeeded. In between both are kept, and the next change tries both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headnode import effective, vault
from headnode.bmclink import Answer
from headnode.errors import InvalidInput
from headnode.model import BmcAccess, Node
from headnode.workflows import asking, power
from headnode.workflows.asking import OnAnswer, quietly
from headnode.workflows.context import Context
from ipmi.passwords import is_vendor_default, new_password

# With a mark at its end, so that no node's name is the beginning of another's.
PENDING = "bmc-next:{}:"


def rotate(
    context: Context,
    nodes: Sequence[Node],
    password: str | None,
    *,
    fanout: int | None = None,
    on_answer: OnAnswer = quietly,
) -> list[Answer]:
    """Give these BMCs a new password: this one, or for each a random one of its own."""
    power.refuse_untouchable(context.site, nodes)
    key = context.paths.secret_key
    if password is not None:
        refuse_vendor_default(context, nodes, password)
    # A random one that an interrupted change may have left at the BMC is tried again: overwritten, it would be lost.
    before = {node.name: context.inventory.secret(PENDING.format(node.name)) for node in nodes}
    sealed = {
        node.name: (None if password else before[node.name]) or vault.seal(password or new_password(), key)
        for node in nodes
    }
    offered = {name: [secret, *filter(None, [before[name]])] for name, secret in sealed.items()}
    with context.inventory.change(context.actor, context.cause) as change:
        for name, secret in sealed.items():
            change.set_secret(PENDING.format(name), secret)
    request = {"verb": "set-password", "sealed": offered, "fanout": fanout}
    answers = power.change(context, nodes, request, on_answer)
    keep(context, {answer.name: sealed[answer.name] for answer in answers if answer.ok})
    return answers


def adopt(
    context: Context,
    nodes: Sequence[Node],
    password: str | None,
    *,
    fanout: int | None = None,
    on_answer: OnAnswer = quietly,
) -> list[Answer]:
    """Remember a password that the BMCs have already, where a login proves it."""
    sealed = vault.seal(password or "", context.paths.secret_key)
    tried = [replace(node, bmc=replace(node.bmc, sealed_password=sealed)) if node.bmc else node for node in nodes]
    # Not through headnode-bmc: it would ask with the password that it knows.
    answers = asking.ask_here(context, tried, {"verb": "power", "action": "status", "fanout": fanout}, on_answer)
    keep(context, {answer.name: sealed for answer in answers if answer.ok})
    return [replace(answer, status="remembered") if answer.ok else answer for answer in answers]


def keep(context: Context, proven: Mapping[str, str]) -> None:
    with context.inventory.change(context.actor, context.cause) as change:
        found = change.nodes(list(proven))
        change.replace([replace(node, bmc=with_password(node.bmc, proven[node.name])) for node in found])
        for name in proven:
            change.forget_secrets(PENDING.format(name))


def with_password(access: BmcAccess | None, sealed: str) -> BmcAccess | None:
    return None if access is None else replace(access, sealed_password=sealed)


def refuse_vendor_default(context: Context, nodes: Sequence[Node], password: str) -> None:
    for node in nodes:
        user = str(effective.value(context.site, node, "bmc_user"))
        if is_vendor_default(user, password):
            raise InvalidInput(
                f"that is a password BMCs are shipped with, or the user's own name '{user}'; nothing was changed",
                hint="--random gives each BMC a password of its own",
            )
