"""Asking other clocks what time it is: NTP (RFC 5905) as a client, many hosts at once through one socket."""

import secrets
import select
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PORT = 123
# Seconds from 1900, where NTP begins to count, to 1970.
EPOCH = 2_208_988_800
CLIENT = 0x23
SERVER_MODE = 4
UNSYNCHRONISED = 3
PACKET = struct.Struct("!BBbb11I")
TRIES = 3


@dataclass(frozen=True)
class Answer:
    """How far a clock is ahead of ours, and how far it is from a reference itself."""

    offset_ms: float
    delay_ms: float
    stratum: int
    synchronised: bool


def question(cookie: int) -> bytes:
    """The cookie stands where our time would: the reply repeats it, and nobody learns our clock."""
    return struct.pack("!B39xQ", CLIENT, cookie)


def understood(packet: bytes, cookie: int, sent: float, received: float) -> Answer | None:
    """A reply to the question with this cookie; anything else is nothing."""
    if len(packet) < PACKET.size:
        return None
    first, stratum, *_ = PACKET.unpack_from(packet)
    origin, arrived, left = struct.unpack_from("!QQQ", packet, 24)
    if first & 7 != SERVER_MODE or origin != cookie or not left:
        return None
    there_in, there_out = seconds(arrived, sent), seconds(left, sent)
    offset = ((there_in - sent) + (there_out - received)) / 2
    delay = max(0.0, (received - sent) - (there_out - there_in))
    synchronised = first >> 6 != UNSYNCHRONISED and 0 < stratum < 16
    return Answer(offset * 1000, delay * 1000, stratum, synchronised)


def seconds(stamp: int, near: float) -> float:
    """An NTP time as Unix time, in the 136 years nearest to ours."""
    value = stamp / 2**32 - EPOCH
    return float(value + round((near - value) / 2**32) * 2**32)


def ask(addresses: Iterable[str], timeout: float = 1.0, port: int = PORT) -> Mapping[str, Answer]:
    """Address → its answer; a host that stays silent is asked again, and left out in the end."""
    waiting = set(addresses)
    found: dict[str, Answer] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setblocking(False)
        for _ in range(TRIES):
            if not waiting:
                break
            asked: dict[str, tuple[int, float]] = {}
            for address in sorted(waiting):
                send(udp, address, port, asked)
                collect(udp, asked, found)
            deadline = time.monotonic() + timeout
            while asked.keys() - found.keys() and (left := deadline - time.monotonic()) > 0:
                select.select([udp], [], [], left)
                collect(udp, asked, found)
            waiting -= found.keys()
    return found


def send(udp: socket.socket, address: str, port: int, asked: dict[str, tuple[int, float]]) -> None:
    cookie = secrets.randbits(64) | 1
    asked[address] = (cookie, time.time())
    try:
        udp.sendto(question(cookie), (address, port))
    except OSError:
        # No way there, or no room to send: silence, and the next round tries again.
        return


def collect(udp: socket.socket, asked: Mapping[str, tuple[int, float]], found: dict[str, Answer]) -> None:
    while True:
        try:
            packet, (address, _) = udp.recvfrom(1024)
        except BlockingIOError:
            return
        except OSError:
            continue  # somebody's refusal, told to us instead of to him
        received = time.time()
        if address in asked and (answer := understood(packet, *asked[address], received)):
            found[address] = answer
