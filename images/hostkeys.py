"""A node's SSH host keys: made once, kept by the caller, and given back to the node at every reinstall.

They are certified by a key of the site, so that one line of known_hosts vouches for every node there will ever be.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

KINDS = ("ed25519", "ecdsa")
# OpenSSH's own word for a certificate that does not run out.
FOREVER = (1 << 64) - 1


@dataclass(frozen=True)
class HostKey:
    kind: str
    public: str
    private: str = field(repr=False)
    certificate: str = ""

    @property
    def path(self) -> str:
        return f"/etc/ssh/ssh_host_{self.kind}_key"


def certified(key: HostKey, authority: HostKey, name: str, names: Sequence[str]) -> HostKey:
    """The key with a certificate: whoever trusts the authority believes that it is the key of a host of these names."""
    from cryptography.hazmat.primitives import serialization

    signer, public = (
        serialization.load_ssh_private_key(authority.private.encode(), None),
        serialization.load_ssh_public_key(key.public.encode()),
    )
    builder = (
        serialization.SSHCertificateBuilder()
        .public_key(public)  # type: ignore[arg-type]
        .serial(0)
        .type(serialization.SSHCertificateType.HOST)
        .key_id(name.encode())
        .valid_principals([word.encode() for word in names])
        .valid_after(0)
        .valid_before(FOREVER)
    )
    return replace(key, certificate=builder.sign(signer).public_bytes().decode())  # type: ignore[arg-type]


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
