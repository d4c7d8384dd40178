"""What a deployment has received of its image, and the disks it was planned for."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("deployments", sa.Column("received", sa.BigInteger))
    op.add_column("deployments", sa.Column("total", sa.BigInteger))
    op.add_column("deployments", sa.Column("disks", sa.JSON))


def downgrade() -> None:
    for name in ("disks", "total", "received"):
        op.drop_column("deployments", name)
