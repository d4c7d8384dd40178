"""Headnode's own certificate authority: it signs the certificates of the directory and the web pages."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headnode.errors import HeadnodeError
from headnode.files import write_whole

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, GeneralName, KeyUsage, SubjectAlternativeName

VALID_FOR = datetime.timedelta(days=3650)
# Browsers refuse a server's certificate that is valid for longer than about a year.
SERVER_VALID_FOR = datetime.timedelta(days=390)
RENEWED_BEFORE = datetime.timedelta(days=60)


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


def sign_server(ca: Path, directory: Path, name: str, addresses: Sequence[str], cluster: str) -> None:
    """A server's certificate for these names and addresses, signed by our CA, unless there is one for exactly them."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    certificate_file, key_file = directory / f"{name}.crt", directory / f"{name}.key"
    wanted = x509.SubjectAlternativeName([general_name(address) for address in addresses])
    authority = x509.load_pem_x509_certificate((ca / "ca.crt").read_bytes())
    if key_file.exists() and still_good(certificate_file, authority, wanted):
        return
    signer = serialization.load_pem_private_key((ca / "ca.key").read_bytes(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise HeadnodeError(f"the key {ca / 'ca.key'} is not Headnode's own", hint="restore it from a backup")
    directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    now = datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Headnode {name} of {cluster}"[:64])]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + SERVER_VALID_FOR)
        .add_extension(wanted, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    encoding, no_password = serialization.Encoding.PEM, serialization.NoEncryption()
    write_whole(key_file, key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, no_password), 0o600)
    write_whole(certificate_file, certificate.public_bytes(encoding), 0o644)


def is_good(ca: Path, certificate: Path, addresses: Sequence[str]) -> bool:
    """Whether a certificate of ours needs no renewing yet."""
    from cryptography import x509

    wanted = x509.SubjectAlternativeName([general_name(address) for address in addresses])
    return still_good(certificate, x509.load_pem_x509_certificate((ca / "ca.crt").read_bytes()), wanted)


def general_name(name: str) -> "GeneralName":
    from ipaddress import ip_address

    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def still_good(file: Path, authority: "Certificate", wanted: "SubjectAlternativeName") -> bool:
    """Signed by this very authority, for exactly these names, and not about to run out."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        found = x509.load_pem_x509_certificate(file.read_bytes())
        found.verify_directly_issued_by(authority)
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return names == wanted and found.not_valid_after_utc > datetime.datetime.now(datetime.UTC) + RENEWED_BEFORE
