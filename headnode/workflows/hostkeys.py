"""SSH host keys that stay the same when a node is reinstalled, so that nobody has to learn to ignore warnings."""

import json
from collections.abc import Iterable, Iterator

from headnode import vault
from headnode.model import Node
from headnode.workflows.context import Context
from images.hostkeys import HostKey, certified, generate, known_hosts

AUTHORITY = "ssh-authority"
# Its public half, where publishing finds it without opening a secret.
FACT = "ssh_authority"


def host_keys(context: Context, node: str) -> tuple[HostKey, ...]:
    """The node's keys; made the first time they are asked for, sealed in the database ever after."""
    return kept(context, f"hostkeys/{node}", f"host keys of {node}")


def certified_keys(context: Context, node: Node) -> tuple[HostKey, ...]:
    """The node's keys, each with a certificate for the names and addresses by which people reach it."""
    authority = ssh_authority(context)
    names = [node.name, f"{node.name}.{context.site.domain}", *(nic.address for nic in node.nics if nic.address)]
    return tuple(certified(key, authority, node.name, names) for key in host_keys(context, node.name))


def ssh_authority(context: Context) -> HostKey:
    """The key that vouches for every node's host keys."""
    return kept(context, AUTHORITY, "the key that certifies host keys")[0]


def authority_line(context: Context, *, make: bool = False) -> str:
    """What known_hosts says of the authority; nothing while there is none and none is to be made."""
    public = context.inventory.fact(FACT)
    if not public and make:
        public = ssh_authority(context).public
        with context.inventory.change(context.actor, context.cause) as change:
            change.set_fact(FACT, public)
    return public


def kept(context: Context, name: str, cause: str) -> tuple[HostKey, ...]:
    sealed = context.inventory.secret(name)
    if sealed is None:
        made = json.dumps([{"kind": k.kind, "public": k.public, "private": k.private} for k in generate()])
        with context.inventory.change(context.actor, cause) as change:
            change.add_secret(name, vault.seal(made, context.paths.secret_key))
        # Another process may have been first: what is in the database is what counts.
        sealed = context.inventory.secret(name) or ""
    return tuple(HostKey(**key) for key in json.loads(vault.unseal(sealed, context.paths.secret_key)))


def plain_lines(context: Context, nodes: Iterable[Node]) -> str:
    """A line for every host key, for clients that know no certificates; nodes that have none yet have no line."""
    return known_hosts(entries(context, nodes))


def entries(context: Context, nodes: Iterable[Node]) -> Iterator[tuple[str, str, str | None, int, tuple[HostKey, ...]]]:
    port = context.site.access.ssh_port
    for node in nodes:
        if context.inventory.secret(f"hostkeys/{node.name}") is not None:
            yield node.name, context.site.domain, node.address, port, host_keys(context, node.name)
