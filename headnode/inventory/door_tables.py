"""Tables of the people's door: who may come in, who is in, and what was done. No node's data is here."""

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, String, Table, Text

from headnode.inventory.tables import Id, Moment, metadata

accounts = Table(
    "accounts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    # argon2; empty for somebody who logs in through the directory.
    Column("password", String(255)),
    Column("sealed_totp", Text),
    # The last time step whose code was used: a code that was watched is worth nothing.
    Column("totp_step", Integer),
    Column("created", Moment, nullable=False),
    Column("disabled", Moment),
)

invitations = Table(
    "invitations",
    metadata,
    # Only digests are kept of whatever opens a door.
    Column("digest", String(64), primary_key=True),
    # Empty for the first admin, who chooses a name.
    Column("name", String(64)),
    Column("role", String(16), nullable=False),
    Column("expires", Moment, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("account_id", ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("created", Moment, nullable=False),
    Column("used", Moment, nullable=False),
    Column("expires", Moment, nullable=False),
    Column("address", String(64), nullable=False),
)

api_tokens = Table(
    "api_tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("account_id", ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("label", String(64), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("created", Moment, nullable=False),
    Column("expires", Moment, nullable=False),
    Column("used", Moment),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("who", String(200), nullable=False),
    # Where from: the address of the asker.
    Column("origin", String(64), nullable=False),
    Column("door", String(8), nullable=False),
    Column("action", String(64), nullable=False),
    Column("nodes", Text, nullable=False),
    Column("result", String(16), nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_audit_who_id", "who", "id"),
)

replies = Table(
    "replies",
    metadata,
    # What a write with this Idempotency-Key was answered; the same key again gets the same answer.
    Column("digest", String(64), primary_key=True),
    Column("request", String(64), nullable=False),
    # Empty while the first one is still being answered.
    Column("status", Integer),
    Column("body", LargeBinary),
    Column("at", Moment, nullable=False, index=True),
)
