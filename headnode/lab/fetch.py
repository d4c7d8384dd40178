"""What firmware does after DHCP: fetch files over TFTP and HTTP, with an address of one's choice."""

import http.client
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headnode.errors import HeadnodeError

TFTP_PORT = 69
READ, DATA, ACKNOWLEDGE, ERROR, OPTIONS = 1, 3, 4, 5, 6
RESEND_AFTER = 1.0
LONGEST = 1 << 30


class FetchFailed(HeadnodeError):
    """The server refused, or did not answer."""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def http_fetch(
    server: str,
    path: str,
    *,
    port: int = 80,
    source: str = "",
    headers: Mapping[str, str] | None = None,
    timeout: float = 30.0,
) -> Response:
    """GET exactly this path (nothing is normalised, so that '..' and worse arrive as written)."""
    connection = http.client.HTTPConnection(server, port, timeout=timeout, source_address=(source, 0))
    try:
        connection.putrequest("GET", path, skip_accept_encoding=True)
        for name, value in {"Connection": "close", **(headers or {})}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, answer.read(), found)
    except (OSError, http.client.HTTPException) as error:
        raise FetchFailed(f"http://{server}:{port}{path} could not be fetched: {error}") from error
    finally:
        connection.close()


def tftp_fetch(server: str, path: str, *, source: str = "", block: int = 1428, timeout: float = 30.0) -> bytes:
    """Read a file (RFC 1350) with the block size and size options (RFC 2348, 2349), as PXE firmware does."""
    options = (b"blksize", str(block).encode(), b"tsize", b"0")
    question = struct.pack("!H", READ) + b"\0".join((path.encode(), b"octet", *options)) + b"\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((source, 0))
        return _Transfer(udp, server, path, time.monotonic() + timeout).read(question)


class _Transfer:
    def __init__(self, udp: socket.socket, server: str, path: str, deadline: float) -> None:
        self._udp = udp
        self._server = server
        self._path = path
        self._deadline = deadline
        self._peer: tuple[str, int] = (server, TFTP_PORT)
        self._answered = False

    def read(self, question: bytes) -> bytes:
        size, promised = 512, None
        kind, number, rest = self._ask(question)
        if kind == OPTIONS:
            agreed = _agreed(rest)
            size, promised = agreed.get("blksize", size), agreed.get("tsize")
            _, number, rest = self._next(0)
        content = bytearray(rest)
        while len(rest) == size:
            _, number, rest = self._next(number)
            content += rest
            if len(content) > LONGEST:
                raise self._failed(f"it is larger than {LONGEST} bytes")
        self._send(struct.pack("!HH", ACKNOWLEDGE, number))
        if promised is not None and promised != len(content):
            raise self._failed(f"{promised} bytes were promised and {len(content)} came")
        return bytes(content)

    def _next(self, acknowledged: int) -> tuple[int, int, bytes]:
        """Acknowledge, and wait for the block after it; repeats of earlier blocks are passed over."""
        return self._ask(struct.pack("!HH", ACKNOWLEDGE, acknowledged), (acknowledged + 1) & 0xFFFF)

    def _ask(self, packet: bytes, expected: int = 1) -> tuple[int, int, bytes]:
        while time.monotonic() < self._deadline:
            self._send(packet)
            resend = min(time.monotonic() + RESEND_AFTER, self._deadline)
            while (left := resend - time.monotonic()) > 0:
                self._udp.settimeout(left)
                answer = self._receive()
                if answer and (answer[0] == OPTIONS or answer[1] == expected):
                    return answer
        raise self._failed("the server stopped answering")

    def _send(self, packet: bytes) -> None:
        try:
            self._udp.sendto(packet, self._peer)
        except OSError as error:
            raise self._failed(str(error)) from error

    def _receive(self) -> tuple[int, int, bytes] | None:
        try:
            packet, peer = self._udp.recvfrom(0xFFFF)
        except TimeoutError:
            return None
        except OSError as error:
            raise self._failed(str(error)) from error
        # The server answers from a port of its own, which is the transfer's from then on.
        if peer[0] != self._server or (self._answered and peer != self._peer) or len(packet) < 4:
            return None
        self._peer, self._answered = peer, True
        kind, number = struct.unpack_from("!HH", packet)
        if kind == ERROR:
            raise self._failed(packet[4:].rstrip(b"\0").decode("latin-1"))
        if kind == OPTIONS:
            return kind, 0, packet[2:]
        return (kind, number, packet[4:]) if kind == DATA else None

    def _failed(self, why: str) -> FetchFailed:
        return FetchFailed(f"tftp://{self._server}/{self._path} could not be fetched: {why}")


def _agreed(options: bytes) -> dict[str, int]:
    words = options.decode("latin-1").split("\0")
    return {name.lower(): int(value) for name, value in zip(words[::2], words[1::2], strict=False) if value.isdigit()}
