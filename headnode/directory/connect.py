"""Connections: to our own slapd through its socket, as root; to somebody else's server over TLS, and only to read."""

import ssl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

with warnings.catch_warnings():
    # It asks pyasn1 for names that have newer ones now; both work.
    warnings.simplefilter("ignore", DeprecationWarning)
    import ldap3
    from ldap3.core.exceptions import LDAPException
    from ldap3.utils.conv import escape_filter_chars

from headnode.errors import HeadnodeError
from headnode.site import Directory as Settings

SYNC: Literal["SYNC"] = "SYNC"
ASYNC: Literal["ASYNC"] = "ASYNC"
PATIENCE = 30


def escaped(text: str) -> str:
    """A text as part of a filter, where none of its characters means anything."""
    return str(escape_filter_chars(text))


@contextmanager
def explained() -> Iterator[None]:
    try:
        yield
    except (LDAPException, OSError) as error:
        raise HeadnodeError(
            f"the directory does not answer as it should: {' '.join(str(error).split())}",
            hint="'headnode up' or systemd runs it; 'headnode check' says more",
        ) from error


@contextmanager
def connection_to(socket: Path, strategy: Literal["SYNC", "ASYNC"]) -> Iterator[Any]:
    """Our own server, through its socket: who is there is root because the kernel says so."""
    if not socket.exists():
        raise HeadnodeError("the directory is not running", hint="start it: 'headnode up', or systemd's headnode-slapd")
    server = ldap3.Server(f"ldapi://{socket}", get_info=ldap3.NONE, connect_timeout=PATIENCE)
    connection: Any = ldap3.Connection(
        server,
        authentication=ldap3.SASL,
        sasl_mechanism=ldap3.EXTERNAL,
        sasl_credentials="",
        client_strategy=strategy,
        check_names=False,
    )
    try:
        with explained():
            bound = connection.bind()
            # Asynchronous ones return the number of a question instead of an answer.
            if strategy == ASYNC:
                bound = connection.get_response(bound)[1]["result"] == 0 if not isinstance(bound, bool) else bound
        if not bound:
            raise HeadnodeError("the directory does not know us", hint="run this as root on the head node")
        yield connection
    finally:
        end(connection)


def end(connection: Any) -> None:
    """A connection that is broken cannot be ended politely, and one that was never made leaves its socket open."""
    with suppress(LDAPException, OSError):
        connection.unbind()
    if connection.socket is not None:
        connection.socket.close()


class CheckedTls(ldap3.Tls):
    """The standard library's own check of certificate and name: ldap3's is gone from newer Pythons."""

    def __init__(self, ca_file: str | None) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self.context = ssl.create_default_context(cafile=ca_file)

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        connection.socket = self.context.wrap_socket(connection.socket, server_hostname=connection.server.host)


@contextmanager
def connection_elsewhere(settings: Settings, ca_file: str | None, password: str | None) -> Iterator[Any]:
    """A site's own directory: always over TLS, its certificate always checked, and nothing is ever written."""
    with explained():
        tls = CheckedTls(ca_file)
    secure = str(settings.uri).startswith("ldaps:")
    server = ldap3.Server(str(settings.uri), tls=tls, use_ssl=secure, get_info=ldap3.NONE, connect_timeout=PATIENCE)
    connection: Any = ldap3.Connection(
        server,
        user=settings.bind_dn,
        password=password,
        authentication=ldap3.SIMPLE if settings.bind_dn else ldap3.ANONYMOUS,
        client_strategy=SYNC,
        check_names=False,
        read_only=True,
        receive_timeout=PATIENCE,
    )
    try:
        with explained():
            connection.open()
            if not secure and not connection.start_tls():
                raise HeadnodeError(f"{settings.uri} does not offer StartTLS; use an ldaps:// address")
            if not connection.bind():
                said = connection.result["description"]
                raise HeadnodeError(f"{settings.uri} refuses {settings.bind_dn or 'anonymous reading'}: {said}")
        yield connection
    finally:
        end(connection)
