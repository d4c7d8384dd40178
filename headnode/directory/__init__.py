"""People and groups in LDAP. The only place that imports ldap3.

`server` configures and prepares our own slapd, `names` says where things are in the tree, `entries` turns people into
entries and back, and `client` talks to the server, ours or somebody else's.
"""
