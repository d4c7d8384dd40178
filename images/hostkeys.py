"""A node's SSH host keys: made once, kept by the caller, and given back to the node at every reinstall."""

from collections.abc import Iterable
from dataclasses import dataclass, field

KINDS = ("ed25519", "ecdsa")


@dataclass(frozen=True)
class HostKey:
    kind: str
    public: str
    private: str = field(repr=False)

    @property
    def path(self) -> str:
        return f"/etc/ssh/ssh_host_{self.kind}_key"


def generate() -> tuple[HostKey, ...]:
    """New keys; not pure, and called once per node in its life."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    made: tuple[ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey, ...] = (
        ed25519.Ed25519PrivateKey.generate(),
        ec.generate_private_key(ec.SECP256R1()),
    )
    keys = []
    for kind, key in zip(KINDS, made, strict=True):
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        keys.append(HostKey(kind, public.decode(), private.decode()))
    return tuple(keys)


def known_hosts(nodes: Iterable[tuple[str, str, str | None, int, tuple[HostKey, ...]]]) -> str:
    """Text for ssh's known_hosts: (name, domain, address, port, keys) of each node, one line per key."""
    lines = []
    for name, domain, address, port, keys in nodes:
        names = [found for found in (name, f"{name}.{domain}", address) if found]
        words = ",".join(found if port == 22 else f"[{found}]:{port}" for found in names)
        lines += [f"{words} {key.public}" for key in keys]
    return "".join(f"{line}\n" for line in lines)
