"""SSH host keys that stay the same when a node is reinstalled, so that nobody has to learn to ignore warnings."""

import json

from headnode import vault
from headnode.workflows.context import Context
from images.hostkeys import HostKey, generate


def host_keys(context: Context, node: str) -> tuple[HostKey, ...]:
    """The node's keys; made the first time they are asked for, sealed in the database ever after."""
    name = f"hostkeys/{node}"
    sealed = context.inventory.secret(name)
    if sealed is None:
        made = json.dumps([{"kind": k.kind, "public": k.public, "private": k.private} for k in generate()])
        with context.inventory.change(context.actor, f"host keys of {node}") as change:
            change.add_secret(name, vault.seal(made, context.paths.secret_key))
        # Another process may have been first: what is in the database is what counts.
        sealed = context.inventory.secret(name) or ""
    return tuple(HostKey(**key) for key in json.loads(vault.unseal(sealed, context.paths.secret_key)))
