"""The site's own signature on what it built: ed25519, its private key readable by root alone."""

import base64
import binascii
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headnode.errors import HeadnodeError
from headnode.files import write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY, PUBLIC = "image.key", "image.pub"


@dataclass(frozen=True)
class Signer:
    key: "Ed25519PrivateKey" = field(repr=False)

    def sign(self, content: bytes) -> str:
        return base64.b64encode(self.key.sign(content)).decode("ascii")

    @property
    def public(self) -> str:
        return base64.b64encode(self.key.public_key().public_bytes_raw()).decode("ascii")


def signer(directory: Path) -> Signer:
    """The site's key, made at its first use."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = directory / KEY
    if not path.exists():
        create(path)
    try:
        if path.stat().st_mode & 0o077:
            raise HeadnodeError(f"the signing key {path} is readable by others", hint=f"chmod 600 {path}")
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise HeadnodeError(f"the signing key {path} cannot be read: {error}", hint="run as root") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise HeadnodeError(f"the signing key {path} is not an ed25519 key")
    made = Signer(key)
    public = directory / PUBLIC
    if not public.exists():
        public.write_text(made.public + "\n")
    return made


def create(path: Path) -> None:
    """Made beside and linked into place: of two that make one at the same moment, both then use the first."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    content = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        write_new(path, content, 0o600)


def public_key(directory: Path) -> str:
    try:
        return (directory / PUBLIC).read_text().strip()
    except OSError as error:
        raise HeadnodeError(
            f"the site's public key {directory / PUBLIC} cannot be read: {error.strerror}",
            hint="it is made by the first 'headnode image build'",
        ) from error


def valid(content: bytes, signature: str, public: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public, validate=True))
        key.verify(base64.b64decode(signature, validate=True), content)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True
