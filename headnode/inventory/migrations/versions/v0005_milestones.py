"""What was asked of nodes and how that ended gets an index of its own; the rest of history may be forgotten when old.

History stays append-only but for that: an event can be deleted only when it is no milestone, and not newer than the one
up to which somebody has said before that it is forgotten.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
MILESTONES = (
    "('enroll', 'inspect', 'deploy', 'rescue', 'live', 'verify.asked', 'inspected', 'deployed', 'done', 'failed', "
    "'verify', 'maintain', 'resume', 'retire')"
)
FORGOTTEN = "COALESCE((SELECT value FROM counters WHERE name = 'forgotten'), 0)"
KEPT = f"OLD.kind IN {MILESTONES} OR OLD.id > {FORGOTTEN}"


def upgrade() -> None:
    where = sa.text(f"kind IN {MILESTONES}")
    op.create_index("ix_events_milestone", "events", ["node", "id"], sqlite_where=where, postgresql_where=where)
    # A restored backup of an older Headnode may find here what a newer one has left.
    op.execute("INSERT INTO counters (name, value) VALUES ('forgotten', 0) ON CONFLICT (name) DO NOTHING")
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER events_no_delete")
        op.execute(
            f"CREATE TRIGGER events_no_delete BEFORE DELETE ON events WHEN {KEPT} "
            "BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
        )
        return
    op.execute("DROP TRIGGER events_append_only ON events")
    op.execute(
        "CREATE TRIGGER events_append_only BEFORE UPDATE OR TRUNCATE ON events "
        "FOR EACH STATEMENT EXECUTE FUNCTION events_append_only()"
    )
    op.execute(
        "CREATE OR REPLACE FUNCTION events_forgotten() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN IF {KEPT} THEN RAISE EXCEPTION 'events are append-only'; END IF; RETURN OLD; END $$"
    )
    op.execute(
        "CREATE TRIGGER events_forgotten BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION events_forgotten()"
    )


def downgrade() -> None:
    raise NotImplementedError("events that were forgotten do not come back")
