"""Secrets at rest: sealed with a key that only root can read (BMC passwords now, more later)."""

import ctypes
import functools
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NewType

from headnode.errors import HeadnodeError, InvalidInput, shown
from headnode.files import write_new

Sealed = NewType("Sealed", str)


def create_key(path: Path) -> None:
    """Make the key unless there is one: replacing it would make every stored secret unreadable."""
    from cryptography.fernet import Fernet

    if path.exists():
        load(path)
        return
    with suppress(FileExistsError):
        write_new(path, Fernet.generate_key(), 0o600)


def read_key(path: Path) -> bytes:
    try:
        status = path.stat()
        key = path.read_bytes()
    except OSError as error:
        raise HeadnodeError(
            f"the secrets key {path} cannot be read: {error.strerror}",
            hint="run as root, or 'headnode init' on a new machine; restore it from a backup if it is lost",
        ) from error
    if status.st_mode & 0o077:
        raise HeadnodeError(f"the secrets key {path} is readable by others", hint=f"chmod 600 {path}")
    return key


def seal(secret: str, key_file: Path) -> Sealed:
    from cryptography.fernet import Fernet

    return Sealed(Fernet(load(key_file)).encrypt(secret.encode()).decode("ascii"))


def unseal(sealed: str, key_file: Path) -> str:
    return unsealer(key_file)(sealed)


def unsealer(key_file: Path) -> Callable[[str], str]:
    """For many secrets: the key is read once."""
    from cryptography.fernet import Fernet, InvalidToken

    leave_no_core()
    key = Fernet(load(key_file))

    def unseal(sealed: str) -> str:
        try:
            return key.decrypt(sealed.encode("ascii")).decode()
        except (InvalidToken, ValueError) as error:
            raise HeadnodeError(
                f"a stored secret cannot be opened with {key_file}", hint="restore the key it was sealed with"
            ) from error

    return unseal


@functools.cache
def leave_no_core() -> None:
    """A process that holds an unsealed secret must not leave it behind in a core dump when it dies."""
    pr_set_dumpable = 4
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The limit does not bind a core handler that the kernel pipes to; this does.
    ctypes.CDLL(None).prctl(pr_set_dumpable, 0, 0, 0, 0)


def load(key_file: Path) -> bytes:
    from cryptography.fernet import Fernet

    key = read_key(key_file)
    try:
        Fernet(key)
    except ValueError as error:
        raise HeadnodeError(f"the secrets key {key_file} is damaged", hint="restore it from a backup") from error
    return key


def read_password(path: Path) -> str:
    """A password from a file: its first line, without the line end."""
    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"the password file {shown(path)} cannot be read: {why}") from None
    # Not splitlines(): what it takes for a line end may be part of a password.
    password = text.split("\n")[0].removesuffix("\r")
    if not password:
        raise InvalidInput(f"the password file {shown(path)} is empty; put the password on its first line")
    return password
