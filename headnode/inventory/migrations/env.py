"""Run by alembic with the connection that headnode.inventory.engine.upgrade() hands over."""

from alembic import context

from headnode.inventory.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
