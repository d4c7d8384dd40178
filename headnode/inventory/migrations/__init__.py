"""The database's history of shapes, oldest first."""
