"""The TFTP client against servers that lose, repeat, refuse and lie, on loopback."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headnode.lab import fetch
from headnode.lab.fetch import FetchFailed, tftp_fetch

Answer = Callable[[bytes], list[bytes]]


def data(number: int, content: bytes) -> bytes:
    return struct.pack("!HH", fetch.DATA, number) + content


def options(**values: int) -> bytes:
    words = b"".join(f"{name}\0{value}\0".encode() for name, value in values.items())
    return struct.pack("!H", fetch.OPTIONS) + words


@contextmanager
def server(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> Iterator[None]:
    """Answers each packet as told, until the client is done."""
    monkeypatch.setattr(fetch, "RESEND_AFTER", 0.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.05)
        monkeypatch.setattr(fetch, "TFTP_PORT", udp.getsockname()[1])
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                try:
                    packet, peer = udp.recvfrom(2048)
                except TimeoutError:
                    continue
                for reply in answer(packet):
                    udp.sendto(reply, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def test_a_server_without_options_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(packet: bytes) -> list[bytes]:
        if packet[1] == fetch.READ:
            return [data(1, b"x" * 512)]
        return [data(2, b"end")] if packet[3] == 1 else []

    with server(monkeypatch, answer):
        assert tftp_fetch("127.0.0.1", "f") == b"x" * 512 + b"end"


def test_lost_and_repeated_blocks_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def answer(packet: bytes) -> list[bytes]:
        seen.append(packet)
        if seen.count(packet) == 1:
            return []  # everything is lost once
        if packet[1] == fetch.READ:
            return [options(blksize=8, tsize=11)]
        blocks = {0: data(1, b"12345678"), 1: data(2, b"end")}
        return [blocks[packet[3]], data(1, b"12345678")] if packet[3] in blocks else []

    with server(monkeypatch, answer):
        assert tftp_fetch("127.0.0.1", "f") == b"12345678end"


def test_a_short_file_is_not_taken_for_the_promised_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(packet: bytes) -> list[bytes]:
        return [options(tsize=100)] if packet[1] == fetch.READ else [data(1, b"short")] if packet[3] == 0 else []

    with server(monkeypatch, answer), pytest.raises(FetchFailed, match="100 bytes were promised and 5 came"):
        tftp_fetch("127.0.0.1", "f")


def test_a_refusal_is_told_in_the_servers_words(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = struct.pack("!HH", fetch.ERROR, 1) + b"file not found\0"
    with server(monkeypatch, lambda _: [refusal]), pytest.raises(FetchFailed, match="file not found"):
        tftp_fetch("127.0.0.1", "f")


def test_silence_and_garbage_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        server(monkeypatch, lambda _: [b"", b"\0", b"\0\x63xx"]),
        pytest.raises(FetchFailed, match="stopped answering"),
    ):
        tftp_fetch("127.0.0.1", "f", timeout=0.5)
