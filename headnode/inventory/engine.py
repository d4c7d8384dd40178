"""Opening the database: SQLite by default, PostgreSQL by URL, both at the newest schema."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from headnode.errors import HeadnodeError

# The newest migration; a test compares it with the files, so that opening need not import alembic.
HEAD = "0005"
# Any number will do, as long as every head node uses the same.
UPGRADE_LOCK = 4_862_311


def sqlite_url(path: Path) -> URL:
    return URL.create("sqlite", database=str(path))


def open_engine(url: str | URL) -> Engine:
    """An engine at the newest schema; a database of a newer Headnode is refused, an older one upgraded."""
    engine = engine_of(url)
    try:
        with failures_explained(engine):
            if current_version(engine) != HEAD:
                upgrade(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def engine_of(url: str | URL) -> Engine:
    """An engine for whatever is there; nothing is asked of it yet."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        # The text is not repeated: it may hold a password.
        raise HeadnodeError(
            "database.url in site.yaml is not a URL; use one such as postgresql://headnode@db.example.org/headnode"
        ) from None
    return sqlite_engine(found) if found.get_backend_name() == "sqlite" else postgresql_engine(found)


@contextmanager
def failures_explained(engine: Engine) -> Iterator[None]:
    """What a database says when it is gone, full, damaged or not ours to write, as one sentence."""
    try:
        yield
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        raise HeadnodeError(
            f"the database {engine.url.render_as_string(hide_password=True)} cannot be used: {reason}",
            hint="check database.url in site.yaml, the free space, and who may write there",
        ) from error


class Store:
    """A part of the database with small transactions of its own.

    They take no new revision, because no node changes: a page that is open need not look again.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with failures_explained(self._engine), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with (
            failures_explained(self._engine),
            self._engine.connect().execution_options(writing=True) as connection,
            connection.begin(),
        ):
            yield connection


def postgresql_engine(url: URL) -> Engine:
    try:
        return create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise HeadnodeError(
            "PostgreSQL needs the Python package psycopg", hint="pip install 'headnode[postgresql]'"
        ) from error


def sqlite_engine(url: URL) -> Engine:
    keep_private(url)
    engine = create_engine(url, connect_args={"timeout": 60})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, see below
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "busy_timeout = 60000",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: two that both read first and then write would end in an error.
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def keep_private(url: URL) -> None:
    """Sealed or not, secrets are nobody else's; SQLite's files beside the database take on its mode."""
    if url.database and url.database != ":memory:":
        with suppress(OSError):  # opening it tells better what is wrong
            Path(url.database).touch(0o640, exist_ok=False)


def current_version(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def upgrade(engine: Engine) -> None:
    """Bring the schema up to date; several processes may try at once, one does it."""
    from alembic import command
    from alembic.script.revision import ResolutionError
    from alembic.util.exc import CommandError

    with engine.connect().execution_options(writing=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
        config = alembic_config()
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except (CommandError, ResolutionError) as error:
            raise HeadnodeError(
                f"the database was made by a newer Headnode than this one: {error}",
                hint="upgrade this head node",
            ) from error


@cache
def alembic_config() -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
