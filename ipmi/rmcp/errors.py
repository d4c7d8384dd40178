"""The one exception that bytes from the network can cause here."""


class Malformed(Exception):
    """A datagram is not what the protocol allows; it is dropped, as anybody can send us one."""
