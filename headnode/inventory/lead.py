"""One process at a time: whoever leads does what must be done once for the whole cluster.

The lock goes with its holder, however that ends: a file lock for SQLite, an advisory lock for PostgreSQL, where
head nodes may be several.
"""

import fcntl
import os
import zlib
from contextlib import suppress
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError


class Lead(Protocol):
    grace: float
    """Seconds to wait before the first act: whoever had it before may not have noticed yet that it is over."""

    def held(self) -> bool:
        """Whether it still is ours; a database that was restarted may have given it to another."""
        ...

    def release(self) -> None: ...


class FileLead:
    grace = 0.0

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def held(self) -> bool:
        return True

    def release(self) -> None:
        os.close(self._descriptor)


class SessionLead:
    # Its holder looks every second (headnode/reconcile/duties.py).
    grace = 3.0

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def held(self) -> bool:
        try:
            self._connection.execute(text("SELECT 1"))
        except DBAPIError:
            return False
        return not self._connection.invalidated

    def release(self) -> None:
        # Ending the session is what frees the lock; back in the pool it would be kept.
        with suppress(DBAPIError):
            self._connection.invalidate()
        self._connection.close()


def take(engine: Engine, name: str) -> Lead | None:
    """The lead of that name, or nothing while another process has it."""
    return take_session(engine, name) if engine.dialect.name == "postgresql" else take_file(engine, name)


def take_file(engine: Engine, name: str) -> Lead | None:
    descriptor = os.open(f"{engine.url.database}.{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return FileLead(descriptor)


def take_session(engine: Engine, name: str) -> Lead | None:
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    key = zlib.crc32(f"headnode {name}".encode())
    if connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
        return SessionLead(connection)
    connection.close()
    return None
