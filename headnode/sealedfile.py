"""A file that nobody reads or changes without its key: a stream of chunks, each sealed with AES-256-GCM.

Every chunk's nonce holds its number and whether it is the last, so that chunks can be neither exchanged nor left out,
and an archive that was cut short is noticed. The key of each file is its own, made from a passphrase (scrypt) or a
key file, and a salt.
"""

import base64
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from headnode.errors import HeadnodeError, InvalidInput, shown
from headnode.files import write_new

MAGIC = b"headnode backup 1\n"
SALT, TAG, CHUNK = 32, 16, 1 << 16
# scrypt's work: 64 MiB and a fraction of a second for whoever knows the passphrase, the same again for every guess.
COST, BLOCK, LANES = 1 << 16, 8, 1
KINDS = {b"P": "passphrase", b"K": "key file"}
SHORTEST = 12


@dataclass(frozen=True)
class Unlocking:
    """What opens an archive: words that somebody remembers, or a key that somebody keeps."""

    kind: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def passphrase(cls, text: str) -> "Unlocking":
        if len(text) < SHORTEST:
            raise InvalidInput(f"the passphrase has fewer than {SHORTEST} characters; use a few words")
        return cls(b"P", text.encode())

    @classmethod
    def key_file(cls, path: Path) -> "Unlocking":
        try:
            status, text = path.stat(), path.read_bytes()
            key = base64.b64decode(text.strip(), validate=True)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no key"
            raise InvalidInput(f"the key file {shown(path)} cannot be used: {why}") from None
        if len(key) != SALT:
            raise InvalidInput(f"the key file {shown(path)} is not one that 'headnode backup key' made")
        if status.st_mode & 0o077:
            raise InvalidInput(f"the key file {shown(path)} is readable by others", hint=f"chmod 600 {path}")
        return cls(b"K", key)

    def key(self, salt: bytes) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        if self.kind == b"P":
            return Scrypt(salt=salt, length=32, n=COST, r=BLOCK, p=LANES).derive(self.secret)
        return HKDF(SHA256(), 32, salt, MAGIC).derive(self.secret)


def create_key_file(path: Path) -> None:
    try:
        write_new(path, base64.b64encode(os.urandom(SALT)) + b"\n", 0o600)
    except FileExistsError:
        raise InvalidInput(f"{shown(path)} exists already and is not overwritten") from None
    except OSError as error:
        raise HeadnodeError(f"{path} cannot be written: {error.strerror}") from error


def seal(plain: Iterable[bytes], target: IO[bytes], unlocking: Unlocking) -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt = os.urandom(SALT)
    header = MAGIC + unlocking.kind + salt
    cipher = AESGCM(unlocking.key(salt))
    target.write(header)
    held = memoryview(b"")
    number = 0
    for piece in plain:
        # Pieces may be as large as a database: each byte is moved once.
        held, at = memoryview(bytes(held) + piece), 0
        while len(held) - at > CHUNK:
            target.write(cipher.encrypt(nonce(number, last=False), held[at : at + CHUNK], header))
            at, number = at + CHUNK, number + 1
        held = held[at:]
    target.write(cipher.encrypt(nonce(number, last=True), held, header))


def unseal(source: IO[bytes], unlocking: Unlocking) -> Iterator[bytes]:
    """Chunk by chunk, each proven before it is given out; only after the last is it known that nothing is missing."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    header = source.read(len(MAGIC) + 1 + SALT)
    kind, salt = header[len(MAGIC) : len(MAGIC) + 1], header[-SALT:]
    if not header.startswith(MAGIC) or kind not in KINDS or len(header) < len(MAGIC) + 1 + SALT:
        raise HeadnodeError("this is not a backup that Headnode made, or its beginning is damaged")
    if kind != unlocking.kind:
        raise InvalidInput(f"this backup was locked with a {KINDS[kind]}, not with a {KINDS[unlocking.kind]}")
    cipher = AESGCM(unlocking.key(salt))
    number, held = 0, source.read(CHUNK + TAG)
    while True:
        following = source.read(CHUNK + TAG)
        try:
            yield cipher.decrypt(nonce(number, last=not following), held, header)
        except InvalidTag:
            raise damaged(number) from None
        if not following:
            return
        number, held = number + 1, following


def damaged(number: int) -> HeadnodeError:
    if number == 0:
        return HeadnodeError(
            "this backup cannot be opened: the key is wrong, or the file was changed or cut short",
            hint="nothing was changed; try the other key, or another copy of the file",
        )
    return HeadnodeError(
        f"this backup was changed or cut short after {number * CHUNK} bytes",
        hint="nothing was changed; use another copy of the file",
    )


def nonce(number: int, *, last: bool) -> bytes:
    # The key is this file's alone, so a number is enough.
    return struct.pack("!3xQ?", number, last)
