"""Accounts, sessions, tokens and the audit log of the people's door."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("password", sa.String(255)),
        sa.Column("sealed_totp", sa.Text),
        sa.Column("totp_step", sa.Integer),
        sa.Column("created", Moment, nullable=False),
        sa.Column("disabled", Moment),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("name", name="uq_accounts_name"),
    )
    op.create_table(
        "invitations",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("name", sa.String(64)),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("expires", Moment, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_invitations"),
    )
    create_what_opens()
    create_records()
    make_audit_append_only()


def create_what_opens() -> None:
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("account_id", Id, nullable=False),
        sa.Column("created", Moment, nullable=False),
        sa.Column("used", Moment, nullable=False),
        sa.Column("expires", Moment, nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_sessions_account_id", ondelete="CASCADE"),
    )
    op.create_index("ix_sessions_account_id", "sessions", ["account_id"])
    op.create_table(
        "api_tokens",
        sa.Column("id", Id, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("account_id", Id, nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("created", Moment, nullable=False),
        sa.Column("expires", Moment, nullable=False),
        sa.Column("used", Moment),
        sa.PrimaryKeyConstraint("id", name="pk_api_tokens"),
        sa.UniqueConstraint("digest", name="uq_api_tokens_digest"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_api_tokens_account_id", ondelete="CASCADE"),
    )
    op.create_index("ix_api_tokens_account_id", "api_tokens", ["account_id"])


def create_records() -> None:
    op.create_table(
        "audit",
        sa.Column("id", Id, nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("origin", sa.String(64), nullable=False),
        sa.Column("door", sa.String(8), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("nodes", sa.Text, nullable=False),
        sa.Column("result", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_who_id", "audit", ["who", "id"])
    op.create_table(
        "replies",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.LargeBinary),
        sa.Column("at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_replies"),
    )
    op.create_index("ix_replies_at", "replies", ["at"])


def make_audit_append_only() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
                "BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
            )
        return
    # The function that guards the events says the same; only the table differs.
    op.execute(
        "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION events_append_only()"
    )


def downgrade() -> None:
    for table in ("replies", "audit", "api_tokens", "sessions", "invitations", "accounts"):
        op.drop_table(table)
