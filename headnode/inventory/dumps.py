"""A consistent copy of the database while it is in use, and putting one back."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, inspect, make_url, text

from headnode import run
from headnode.errors import HeadnodeError, ProgramFailed
from headnode.inventory.engine import engine_of, failures_explained

SQLITE, POSTGRESQL = "sqlite", "postgresql"
LONG = 3600.0


def kind_of(url: str | None) -> str:
    return POSTGRESQL if url else SQLITE


def dump(url: str | None, default: Path, target: Path) -> None:
    """One moment of the database, whoever writes meanwhile."""
    if url:
        where, env = server(url)
        argv = ["pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}", f"--dbname={where}"]
        run.run(argv, env=env, timeout=LONG)
        return
    with explained(default), closing(connected(default)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        # The copy is one file, without a log beside it that could be forgotten.
        copy.execute("PRAGMA journal_mode = DELETE")


def load(url: str | None, default: Path, source: Path) -> None:
    """Put a copy in place of whatever is there, or change nothing."""
    if url:
        where, env = server(url)
        argv = ["pg_restore", "--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction"]
        run.run([*argv, f"--dbname={where}", source], env=env, timeout=LONG)
        return
    default.parent.mkdir(parents=True, exist_ok=True)
    for beside in ("-wal", "-shm"):
        # A log of another database would be played into this one.
        default.with_name(default.name + beside).unlink(missing_ok=True)
    source.chmod(0o640)
    source.replace(default)


def problems(kind: str, source: Path) -> list[str]:
    """What is wrong with a copy, by the program that would read it."""
    if kind == POSTGRESQL:
        try:
            listed = run.run(["pg_restore", "--list", source]).stdout
        except ProgramFailed as error:
            return [error.message]
        return [] if "TABLE DATA" in listed else ["the copy of the database holds no tables"]
    try:
        with closing(connected(source)) as copy:
            found = [str(row[0]) for row in copy.execute("PRAGMA integrity_check")]
            copy.execute("SELECT count(*) FROM nodes")
    except sqlite3.Error as error:
        return [f"the copy of the database cannot be read: {error}"]
    return [] if found == ["ok"] else found


def occupied(url: str) -> bool:
    """Whether a server has an inventory already, with anything in it that could be lost; asking changes nothing."""
    engine = engine_of(url)
    try:
        with failures_explained(engine), engine.connect() as connection:
            if not inspect(connection).has_table("nodes"):
                return False
            return connection.execute(text("SELECT 1 FROM nodes LIMIT 1")).scalar() is not None
    finally:
        engine.dispose()


def connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=60)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What SQLite says, as one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise HeadnodeError(f"the database {path} cannot be copied: {error}") from error


def server(url: str) -> tuple[str, dict[str, str]]:
    """How PostgreSQL's own programs reach it; the password goes through the environment, never through arguments."""
    found: URL = make_url(url)
    env = {"PGPASSWORD": str(found.password)} if found.password else {}
    plain = found.set(drivername="postgresql", password=None)
    return plain.render_as_string(hide_password=False), env
