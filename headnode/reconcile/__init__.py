"""headnode-reconcile: watches, records and keeps promises. All its state is in the database.

Killing it at any moment loses nothing: logs are read on from where the database says, an overdue discovery window is
closed at the next start, and services are told to reload once whenever it starts.
"""
