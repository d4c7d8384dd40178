"""A cluster on one machine: namespaces, bridges and emulated machines that always clean up after themselves."""
