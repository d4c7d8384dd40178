"""The two cipher suites we speak, and the keys of one session. Suite 0 (no authentication) is not here."""

import hmac
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ipmi.rmcp.errors import Malformed

BLOCK: Final = 16
# Confidentiality padding is 1, 2, 3, … and then its own length.
PADDING: Final = bytes(range(1, BLOCK))


@dataclass(frozen=True)
class Suite:
    """A cipher suite: RAKP authentication, integrity and confidentiality as the numbers on the wire."""

    number: int
    digest: str
    authentication: int
    integrity: int
    confidentiality: int
    code_length: int


SUITE_3: Final = Suite(3, "sha1", authentication=1, integrity=1, confidentiality=1, code_length=12)
SUITE_17: Final = Suite(17, "sha256", authentication=3, integrity=4, confidentiality=1, code_length=16)
# The stronger first; a BMC that lacks it says so in one round trip.
SUITES: Final = (SUITE_17, SUITE_3)


@dataclass(frozen=True)
class LoginSecrets:
    """Everything both sides hashed during the login, under the names the IPMI specification gives it."""

    suite: Suite
    user_key: bytes
    bmc_key: bytes
    user: bytes
    role: int
    console_id: bytes
    bmc_id: bytes
    console_random: bytes
    bmc_random: bytes
    bmc_guid: bytes

    @property
    def who(self) -> bytes:
        return bytes((self.role, len(self.user))) + self.user

    def bmc_proof(self) -> bytes:
        """What RAKP 2 must carry: the BMC knows the password too."""
        said = self.console_id + self.bmc_id + self.console_random + self.bmc_random + self.bmc_guid
        return hmac.digest(self.user_key, said + self.who, self.suite.digest)

    def console_proof(self) -> bytes:
        """What RAKP 3 carries: so do we."""
        return hmac.digest(self.user_key, self.bmc_random + self.console_id + self.who, self.suite.digest)

    @cached_property
    def session_key(self) -> bytes:
        said = self.console_random + self.bmc_random + self.who
        return hmac.digest(self.bmc_key or self.user_key, said, self.suite.digest)

    def session_proof(self) -> bytes:
        """What RAKP 4 must carry: both sides hold the same session key."""
        said = self.console_random + self.bmc_id + self.bmc_guid
        return hmac.digest(self.session_key, said, self.suite.digest)[: self.suite.code_length]


class SessionKeys:
    """Signs and encrypts for one session.

    Setting AES up costs more than using it, so each direction keeps one CBC chain for the whole session. A message
    starts with a block of random bytes put through the chain: what comes out is the message's unpredictable
    initialisation vector, and what follows is chained to it. Reading, the first block only aligns the chain.
    """

    def __init__(self, suite: Suite, session_key: bytes) -> None:
        self.suite = suite
        self.integrity_key = hmac.digest(session_key, b"\x01" * 20, suite.digest)
        key = algorithms.AES(hmac.digest(session_key, b"\x02" * 20, suite.digest)[:BLOCK])
        chain = Cipher(key, modes.CBC(os.urandom(BLOCK)))
        self.encryptor = chain.encryptor()
        self.decryptor = chain.decryptor()

    def sign(self, data: bytes) -> bytes:
        return hmac.digest(self.integrity_key, data, self.suite.digest)[: self.suite.code_length]

    def signed(self, data: bytes, code: bytes) -> bool:
        return hmac.compare_digest(self.sign(data), code)

    def encrypt(self, payload: bytes) -> bytes:
        pad = -(len(payload) + 1) % BLOCK
        return self.encryptor.update(os.urandom(BLOCK) + payload + PADDING[:pad] + bytes((pad,)))

    def decrypt(self, data: bytes) -> bytes:
        if len(data) < 2 * BLOCK or len(data) % BLOCK:
            raise Malformed("an encrypted payload is not made of whole blocks")
        plain = self.decryptor.update(data)[BLOCK:]
        pad = plain[-1]
        if pad >= BLOCK or plain[-1 - pad : -1] != PADDING[:pad]:
            raise Malformed("an encrypted payload has wrong padding")
        return plain[: -1 - pad]


def user_key(password: str) -> bytes:
    """IPMI 2.0 passwords are 20 bytes, filled up with zeros, which is also the HMAC key's length."""
    return password.encode()[:20].ljust(20, b"\0")
