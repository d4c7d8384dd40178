"""Opening the database: SQLite by default, PostgreSQL by URL, both at the newest schema."""

from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import OperationalError

from headnode.errors import HeadnodeError

# The newest migration; a test compares it with the files, so that opening need not import alembic.
HEAD = "0001"
# Any number will do, as long as every head node uses the same.
UPGRADE_LOCK = 4_862_311


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def open_engine(url: str) -> Engine:
    """An engine at the newest schema; a database of a newer Headnode is refused, an older one upgraded."""
    if url.startswith("postgresql://"):
        url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = sqlite_engine(url) if url.startswith("sqlite") else postgresql_engine(url)
    try:
        found = current_version(engine)
    except OperationalError as error:
        reason = " ".join(str(error.orig).split())
        raise HeadnodeError(
            f"the database {engine.url.render_as_string(hide_password=True)} cannot be opened: {reason}",
            hint="check database.url in site.yaml, and that its directory exists",
        ) from error
    if found != HEAD:
        upgrade(engine)
    return engine


def postgresql_engine(url: str) -> Engine:
    try:
        return create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise HeadnodeError(
            "PostgreSQL needs the Python package psycopg", hint="pip install 'headnode[postgresql]'"
        ) from error


def sqlite_engine(url: str) -> Engine:
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
