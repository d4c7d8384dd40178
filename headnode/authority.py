"""Headnode's own certificate authority: it signs the certificates of the directory and the web pages."""

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headnode.files import write_whole

if TYPE_CHECKING:
    from cryptography.x509 import KeyUsage

VALID_FOR = datetime.timedelta(days=3650)


def create(directory: Path, cluster: str) -> None:
    """Make the CA unless there is one; the certificate comes last, so a half-made CA is made anew."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    certificate_file, key_file = directory / "ca.crt", directory / "ca.key"
    if certificate_file.exists():
        return
    directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Headnode CA of {cluster}")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Nodes whose clock is a little behind must still accept it.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(usage(), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, no_password = serialization.Encoding.PEM, serialization.NoEncryption()
    write_whole(key_file, key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, no_password), 0o600)
    write_whole(certificate_file, certificate.public_bytes(encoding), 0o644)


def usage() -> "KeyUsage":
    from cryptography.x509 import KeyUsage

    return KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
