"""The ledger of UIDs and GIDs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "numbers",
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("given", sa.DateTime(timezone=True), nullable=False),
        sa.Column("removed", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("number", name="pk_numbers"),
    )
    op.create_index("ix_numbers_name", "numbers", ["name"])


def downgrade() -> None:
    raise NotImplementedError("numbers that were given cannot be forgotten")
