"""FRU inventory: maker, model and serial number as the board was programmed with. Pure."""

from typing import Final

from ipmi.rmcp.errors import Malformed
from ipmi.sdr import text

BOARD: Final = ("vendor", "model", "serial", "part")
PRODUCT: Final = ("vendor", "model", "part", "version", "serial")
END: Final = 0xC1


def parse(data: bytes) -> dict[str, str]:
    """`product vendor`, `board serial` and so on; areas that are absent or damaged are left out."""
    if len(data) < 8 or sum(data[:8]) & 0xFF:
        raise Malformed("a FRU inventory has a wrong header")
    facts: dict[str, str] = {}
    for name, at, first, labels in (("board", data[3] * 8, 6, BOARD), ("product", data[4] * 8, 3, PRODUCT)):
        if at:
            values = zip(labels, area(data, at, first), strict=False)
            facts.update((f"{name} {label}", value) for label, value in values if value)
    return facts


def area(data: bytes, at: int, first: int) -> list[str]:
    if at + 2 > len(data):
        return []
    raw = data[at : at + data[at + 1] * 8]
    values: list[str] = []
    position = first
    while position < len(raw) and raw[position] != END:
        values.append(field(raw, position))
        position += 1 + (raw[position] & 0x3F)
    return values


def field(raw: bytes, at: int) -> str:
    """FRU texts are six bits of length where SDR names have five."""
    length = raw[at] & 0x3F
    if raw[at] >> 6 == 3:
        return raw[at + 1 : at + 1 + length].decode("latin-1").replace("\0", "").strip()
    return text(raw[at : at + 1 + length], 0)
