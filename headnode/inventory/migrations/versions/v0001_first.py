"""The first schema, and the triggers that keep history append-only."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    create_nodes()
    create_deployments()
    create_history()
    make_history_append_only()


def create_nodes() -> None:
    counters = op.create_table(
        "counters",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )
    op.bulk_insert(counters, [{"name": "revision", "value": 0}])
    op.create_table(
        "nodes",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("intent", sa.String(16), nullable=False),
        sa.Column("rack", sa.String(64)),
        sa.Column("position", sa.Integer),
        sa.Column("locked", sa.Boolean, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("phase", sa.String(32)),
        sa.Column("reason", sa.Text),
        sa.Column("deadline", Moment),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_nodes"),
        sa.UniqueConstraint("name", name="uq_nodes_name"),
    )
    op.create_index("ix_nodes_state", "nodes", ["state"])
    op.create_index("ix_nodes_rack", "nodes", ["rack"])
    op.create_index("ix_nodes_revision", "nodes", ["revision"])
    op.create_table(
        "nics",
        sa.Column("id", Id, nullable=False),
        sa.Column("node_id", Id, nullable=False),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("mac", sa.String(17), nullable=False),
        sa.Column("address", sa.String(15)),
        sa.Column("name", sa.String(15)),
        sa.PrimaryKeyConstraint("id", name="pk_nics"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_nics_node_id", ondelete="CASCADE"),
        sa.UniqueConstraint("mac", name="uq_nics_mac"),
        sa.UniqueConstraint("address", name="uq_nics_address"),
    )
    op.create_index("ix_nics_node_id", "nics", ["node_id"])
    op.create_table(
        "bmcs",
        sa.Column("node_id", Id, nullable=False),
        sa.Column("address", sa.String(15), nullable=False),
        sa.Column("mac", sa.String(17)),
        sa.Column("sealed_password", sa.Text),
        sa.PrimaryKeyConstraint("node_id", name="pk_bmcs"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_bmcs_node_id", ondelete="CASCADE"),
        sa.UniqueConstraint("address", name="uq_bmcs_address"),
        sa.UniqueConstraint("mac", name="uq_bmcs_mac"),
    )
    op.create_table(
        "group_members",
        sa.Column("group", sa.String(64), nullable=False),
        sa.Column("node_id", Id, nullable=False),
        sa.PrimaryKeyConstraint("group", "node_id", name="pk_group_members"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_group_members_node_id", ondelete="CASCADE"),
    )
    op.create_index("ix_group_members_node_id", "group_members", ["node_id"])


def create_deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column("id", Id, nullable=False),
        sa.Column("node_id", Id, nullable=False),
        sa.Column("intent", sa.String(16), nullable=False),
        sa.Column("image", sa.String(200)),
        sa.Column("consent", sa.JSON, nullable=False),
        sa.Column("session", sa.String(64)),
        sa.Column("step", sa.String(200)),
        sa.Column("percent", sa.Integer),
        sa.Column("started", Moment, nullable=False),
        sa.Column("deadline", Moment, nullable=False),
        sa.Column("finished", Moment),
        sa.Column("result", sa.String(16)),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_deployments"),
        sa.UniqueConstraint("session", name="uq_deployments_session"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_deployments_node_id", ondelete="CASCADE"),
    )
    op.create_index("ix_deployments_node_id", "deployments", ["node_id"])
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("deployment_id", Id, nullable=False),
        sa.Column("address", sa.String(15), nullable=False),
        sa.Column("purpose", sa.String(8), nullable=False),
        sa.Column("expires", Moment, nullable=False),
        sa.Column("used", Moment),
        sa.PrimaryKeyConstraint("digest", name="pk_tokens"),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name="fk_tokens_deployment_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_tokens_deployment_id", "tokens", ["deployment_id"])


def create_history() -> None:
    op.create_table(
        "events",
        sa.Column("id", Id, nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("node", sa.String(63)),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("severity", sa.String(8), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
    )
    op.create_index("ix_events_node_id", "events", ["node", "id"])
    op.create_table(
        "published",
        sa.Column("path", sa.String(255), nullable=False),
        sa.Column("node_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("path", name="pk_published"),
        sa.CheckConstraint("path <> ''", name="ck_published_path"),
    )
    op.create_index("ix_published_node_id", "published", ["node_id"])
    op.create_table(
        "hardware",
        sa.Column("node_id", Id, nullable=False),
        sa.Column("at", Moment, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("node_id", name="pk_hardware"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_hardware_node_id", ondelete="CASCADE"),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sealed", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )
    op.create_table(
        "seen",
        sa.Column("mac", sa.String(17), nullable=False),
        sa.Column("first", Moment, nullable=False),
        sa.Column("last", Moment, nullable=False),
        sa.Column("architecture", sa.String(64)),
        sa.Column("client_id", sa.String(200)),
        sa.PrimaryKeyConstraint("mac", name="pk_seen"),
    )
    op.create_table(
        "facts",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_facts"),
    )


def make_history_append_only() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER events_no_{verb.lower()} BEFORE {verb} ON events "
                "BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION events_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$"
    )
    op.execute(
        "CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events "
        "FOR EACH STATEMENT EXECUTE FUNCTION events_append_only()"
    )


def downgrade() -> None:
    raise NotImplementedError("there is nothing before the first schema")
