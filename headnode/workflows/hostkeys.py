"""SSH host keys that stay the same when a node is reinstalled, so that nobody has to learn to ignore warnings."""

from dataclasses import dataclass

from headnode import vault
from headnode.workflows.context import Context

KINDS = ("ed25519", "ecdsa")


@dataclass(frozen=True)
class HostKey:
    kind: str
    private: str
    public: str


def host_keys(context: Context, node: str) -> list[HostKey]:
    """The node's keys; made the first time they are asked for, sealed in the database ever after."""
    found = [stored(context, node, kind) for kind in KINDS]
    if all(found):
        return [key for key in found if key]
    with context.inventory.change(context.actor, f"host keys of {node}") as change:
        for kind, key in zip(KINDS, found, strict=True):
            if key is None:
                change.add_secret(name_of(node, kind), vault.seal(generate(kind), context.paths.secret_key))
    # Another process may have been first: what is in the database is what counts.
    return [key for kind in KINDS if (key := stored(context, node, kind))]


def stored(context: Context, node: str, kind: str) -> HostKey | None:
    sealed = context.inventory.secret(name_of(node, kind))
    if sealed is None:
        return None
    private = vault.unseal(sealed, context.paths.secret_key)
    return HostKey(kind, private, public_part(private, node))


def name_of(node: str, kind: str) -> str:
    return f"hostkey/{node}/{kind}"


def generate(kind: str) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    key = ed25519.Ed25519PrivateKey.generate() if kind == "ed25519" else ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    ).decode("ascii")


def public_part(private: str, node: str) -> str:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_ssh_private_key(private.encode("ascii"), password=None)
    encoded = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{encoded.decode('ascii')} root@{node}"
