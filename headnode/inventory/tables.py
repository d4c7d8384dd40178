"""The tables. Migrations create them; a test compares the two on every database we support."""

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Moment(TypeDecorator[datetime]):
    """A point in time, kept as UTC: SQLite forgets the time zone it is given."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


# SQLite gives ids of its own only to columns of type INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(63), nullable=False, unique=True),
    Column("profile", String(64), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("intent", String(16), nullable=False),
    Column("rack", String(64), index=True),
    Column("position", Integer),
    Column("locked", Boolean, nullable=False),
    Column("settings", JSON, nullable=False),
    Column("phase", String(32)),
    Column("reason", Text),
    Column("deadline", Moment),
    # Grows with every change of any node: publishing asks for nodes above what it published last.
    Column("revision", BigInteger, nullable=False, index=True),
)

nics = Table(
    "nics",
    metadata,
    Column("id", Id, primary_key=True),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("network", String(64), nullable=False),
    Column("mac", String(17), nullable=False, unique=True),
    Column("address", String(15), unique=True),
    Column("name", String(15)),
)

bmcs = Table(
    "bmcs",
    metadata,
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True),
    Column("address", String(15), nullable=False, unique=True),
    # Known only where Headnode hands out the BMCs' addresses too.
    Column("mac", String(17), unique=True),
    Column("sealed_password", Text),
)

group_members = Table(
    "group_members",
    metadata,
    Column("group", String(64), primary_key=True),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True, index=True),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", Id, primary_key=True),
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("intent", String(16), nullable=False),
    Column("image", String(200)),
    Column("consent", JSON, nullable=False),
    # The digest of the agent's session; a new claim after a power cut replaces it, so only one agent speaks.
    Column("session", String(64), unique=True),
    Column("step", String(200)),
    Column("percent", Integer),
    # Bytes of the image that are on the node, and how many there are in all.
    Column("received", BigInteger),
    Column("total", BigInteger),
    # The layout's names for disks → their serial numbers, as they were in the plan that was handed out.
    Column("disks", JSON),
    Column("started", Moment, nullable=False),
    Column("deadline", Moment, nullable=False),
    Column("finished", Moment),
    Column("result", String(16)),
    Column("reason", Text),
)

tokens = Table(
    "tokens",
    metadata,
    # Only a digest is kept: reading the database gives nobody a token.
    Column("digest", String(64), primary_key=True),
    Column("deployment_id", ForeignKey("deployments.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("address", String(15), nullable=False),
    # claim: opens a deployment once; report: lets the installed system say how it is.
    Column("purpose", String(8), nullable=False),
    Column("expires", Moment, nullable=False),
    Column("used", Moment),
)

# What was asked of a node, and how that ended: found by an index of their own, and never forgotten. Another kind among
# them needs a migration that makes index and trigger anew.
MILESTONES = (
    "enroll", "inspect", "deploy", "rescue", "live", "verify.asked", "inspected", "deployed", "done", "failed",
    "verify", "maintain", "resume", "retire",
)  # fmt: skip
MILESTONE = f"kind IN ({', '.join(repr(kind) for kind in MILESTONES)})"

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Moment, nullable=False),
    # A name, not a key: history outlives its node.
    Column("node", String(63)),
    Column("kind", String(64), nullable=False),
    Column("severity", String(8), nullable=False),
    Column("actor", String(200), nullable=False),
    Column("cause", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Index("ix_events_node_id", "node", "id"),
    Index("ix_events_milestone", "node", "id", sqlite_where=text(MILESTONE), postgresql_where=text(MILESTONE)),
)

published = Table(
    "published",
    metadata,
    Column("path", String(255), primary_key=True),
    # 0: a file of the whole site. Not a foreign key: the file of a removed node is still there to be removed.
    Column("node_id", BigInteger, nullable=False, index=True),
    CheckConstraint("path <> ''", name="path"),
)

hardware = Table(
    "hardware",
    metadata,
    Column("node_id", ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True),
    Column("at", Moment, nullable=False),
    Column("facts", JSON, nullable=False),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("sealed", Text, nullable=False),
)

seen = Table(
    "seen",
    metadata,
    Column("mac", String(17), primary_key=True),
    Column("first", Moment, nullable=False),
    Column("last", Moment, nullable=False),
    Column("architecture", String(64)),
    Column("client_id", String(200)),
)

facts = Table(
    "facts",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

# Every UID and GID that was ever given. A row is never deleted: a number that had an owner never gets another.
numbers = Table(
    "numbers",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    # user or group; a user's number is also that of their own group.
    Column("kind", String(8), nullable=False),
    Column("name", String(64), nullable=False, index=True),
    Column("given", Moment, nullable=False),
    Column("removed", Moment),
)
