"""Sizes as people write them (512M, 1.5T, 20%, rest), as bytes. The units are binary: 1G is 1,073,741,824 bytes."""

from dataclasses import dataclass
from decimal import Decimal

KIB = 1024
MIB = 1024 * KIB
UNITS = {"K": KIB, "M": MIB, "G": 1024 * MIB, "T": 1024 * 1024 * MIB}


@dataclass(frozen=True)
class Size:
    """Exactly one of a number of bytes, a share in percent, or neither: all that is left."""

    fixed: int | None = None
    percent: int | None = None

    @property
    def rest(self) -> bool:
        return self.fixed is None and self.percent is None


def parse(text: str) -> Size:
    """A size that headnode/site.py has let through."""
    if text == "rest":
        return Size()
    if text.endswith("%"):
        return Size(percent=int(text[:-1]))
    return Size(fixed=to_bytes(text))


def to_bytes(text: str) -> int:
    return int(Decimal(text[:-1]) * UNITS[text[-1]])


def up(value: int, unit: int) -> int:
    """The next multiple of the unit, for what must not be smaller than asked."""
    return -(-value // unit) * unit


def down(value: int, unit: int) -> int:
    return value // unit * unit


def shown(value: int) -> str:
    """Bytes for a person: 447.1 GiB, 512 MiB."""
    for unit, name in ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if value >= unit:
            return f"{value / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{value} bytes"
