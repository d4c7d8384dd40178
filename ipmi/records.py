"""Walking a BMC's two lists, sensor records and event log, with all that real ones do in the middle."""

from collections.abc import AsyncIterator, Awaitable
from typing import Final, Protocol

from ipmi import requests
from ipmi.faults import Refused
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.packet import Request

LAST: Final = 0xFFFF
MOST: Final = 4096
RESERVATION_LOST: Final = 0xC5
NO_SUCH: Final = 0xCB
# "Cannot return that many bytes": such BMCs want their records in small pieces.
TOO_MUCH: Final = frozenset({0xCA, 0xC8, 0xC7, 0xFF})
PIECE: Final = 16


class Ask(Protocol):
    def __call__(self, request: Request, what: str) -> Awaitable[bytes]: ...


async def sdr_records(ask: Ask) -> AsyncIterator[bytes]:
    what = "read its sensor records"
    reservation = (await ask(requests.RESERVE_SDR, what))[:2]
    record, seen = 0, 0
    while record != LAST and seen < MOST:
        try:
            following, data = await sdr_record(ask, reservation, record, what)
        except Refused as refusal:
            if refusal.code != RESERVATION_LOST:
                raise
            seen += 1
            reservation = (await ask(requests.RESERVE_SDR, what))[:2]
            continue
        yield data
        if following == record:
            return
        record, seen = following, seen + 1


async def sdr_record(ask: Ask, reservation: bytes, record: int, what: str) -> tuple[int, bytes]:
    try:
        answer = await ask(requests.get_sdr(b"\0\0", record, 0, 0xFF), what)
    except Refused as refusal:
        if refusal.code not in TOO_MUCH:
            raise
        return await sdr_in_pieces(ask, reservation, record, what)
    return int.from_bytes(requests.need(answer, 2)[:2], "little"), answer[2:]


async def sdr_in_pieces(ask: Ask, reservation: bytes, record: int, what: str) -> tuple[int, bytes]:
    head = requests.need(await ask(requests.get_sdr(reservation, record, 0, 5), what), 7)
    following, data = int.from_bytes(head[:2], "little"), head[2:7]
    length = 5 + data[4]
    while len(data) < length:
        count = min(PIECE, length - len(data))
        piece = await ask(requests.get_sdr(reservation, record, len(data), count), what)
        if len(piece) <= 2:
            raise Malformed("a sensor data record ends early")
        data += piece[2:]
    return following, data


async def sel_records(ask: Ask) -> AsyncIterator[bytes]:
    what = "read its event log"
    info = requests.need(await ask(requests.GET_SEL_INFO, what), 3)
    left = int.from_bytes(info[1:3], "little")
    record = 0
    while record != LAST and left > 0:
        try:
            answer = requests.need(await ask(requests.get_sel_entry(record), what), 18)
        except Refused as refusal:
            if refusal.code == NO_SUCH:
                return  # somebody cleared it while we were reading
            raise
        yield answer[2:18]
        record, left = int.from_bytes(answer[:2], "little"), left - 1
