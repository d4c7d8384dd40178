"""People and groups in LDAP. The only place that imports ldap3.

`server` configures and prepares our own slapd, `entries` turns people into entries and back, `connect` opens
connections, and `client` talks to the server, ours or somebody else's.
"""
