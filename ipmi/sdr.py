"""Sensor data records: what a sensor's number means. Pure."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ipmi.readings import Health, SensorReading
from ipmi.rmcp.errors import Malformed

FULL, COMPACT = 0x01, 0x02
THRESHOLD: Final = 0x01

KINDS: Final = {
    0x01: "temperature",
    0x02: "voltage",
    0x03: "current",
    0x04: "fan",
    0x05: "intrusion",
    0x07: "processor",
    0x08: "power supply",
    0x09: "power unit",
    0x0B: "power",
    0x0C: "memory",
    0x0D: "drive",
    0x0F: "firmware",
    0x10: "event log",
    0x12: "system event",
    0x13: "critical interrupt",
    0x14: "button",
    0x1D: "system boot",
    0x1F: "os boot",
    0x20: "os stop",
    0x21: "slot",
    0x22: "acpi power",
    0x23: "watchdog",
    0x28: "management",
    0x29: "battery",
}
UNITS: Final = {
    0: "",
    1: "°C",
    2: "°F",
    3: "K",
    4: "V",
    5: "A",
    6: "W",
    7: "J",
    17: "CFM",
    18: "RPM",
    19: "Hz",
    20: "µs",
    21: "ms",
    22: "s",
}
# Bits of a threshold sensor's state, worst first.
THRESHOLD_STATES: Final = (
    (0x20, "above upper non-recoverable", Health.CRITICAL),
    (0x04, "below lower non-recoverable", Health.CRITICAL),
    (0x10, "above upper critical", Health.CRITICAL),
    (0x02, "below lower critical", Health.CRITICAL),
    (0x08, "above upper warning", Health.WARNING),
    (0x01, "below lower warning", Health.WARNING),
)
LINEAR: Final[Mapping[int, Callable[[float], float]]] = {
    1: math.log,
    2: math.log10,
    3: math.log2,
    4: math.exp,
    5: lambda x: 10.0**x,
    6: lambda x: 2.0**x,
    7: lambda x: 1.0 / x,
    8: lambda x: x * x,
    9: lambda x: x**3,
    10: math.sqrt,
    11: lambda x: math.copysign(abs(x) ** (1 / 3), x),
}


@dataclass(frozen=True)
class SensorRecord:
    number: int
    lun: int
    name: str
    sensor_type: int
    event_type: int
    unit: str = ""
    # 0 unsigned, 1 one's complement, 2 two's complement, 3 no analog reading.
    format: int = 3
    linearization: int = 0
    m: int = 1
    b: int = 0
    result_exponent: int = 0
    b_exponent: int = 0

    def value(self, raw: int) -> float | None:
        if self.format == 3:
            return None
        number = raw
        if raw & 0x80 and self.format == 1:
            number = raw - 255
        elif raw & 0x80 and self.format == 2:
            number = raw - 256
        linear = (self.m * number + self.b * 10.0**self.b_exponent) * 10.0**self.result_exponent
        try:
            return round(LINEAR.get(self.linearization, float)(linear), 6)
        except (ValueError, ZeroDivisionError, OverflowError):
            return None


def parse(record: bytes) -> SensorRecord | None:
    """A sensor's record; None for the kinds that describe something else."""
    if len(record) < 5 or len(record) < 5 + record[4]:
        raise Malformed("a sensor data record is cut off")
    kind = record[3]
    if kind not in (FULL, COMPACT):
        return None
    if len(record) < (48 if kind == FULL else 32):
        raise Malformed("a sensor data record is too short")
    simple = SensorRecord(
        number=record[7],
        lun=record[6] & 0x03,
        name=text(record, 47 if kind == FULL else 31),
        sensor_type=record[12],
        event_type=record[13] & 0x7F,
    )
    if kind == COMPACT:
        return simple
    return replace(
        simple,
        unit=unit(record),
        format=record[20] >> 6,
        linearization=record[23] & 0x7F,
        m=signed(record[24] | (record[25] & 0xC0) << 2, 10),
        b=signed(record[26] | (record[27] & 0xC0) << 2, 10),
        result_exponent=signed(record[29] >> 4, 4),
        b_exponent=signed(record[29] & 0x0F, 4),
    )


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def unit(record: bytes) -> str:
    if record[20] & 0x01:
        return "%"
    return UNITS.get(record[21], f"unit {record[21]}")


def text(data: bytes, at: int) -> str:
    """A name with its type and length in front: 8-bit text, packed 6-bit ASCII, or BCD."""
    coding, length = data[at] >> 6, data[at] & 0x1F
    raw = data[at + 1 : at + 1 + length]
    if coding == 2:
        number = int.from_bytes(raw, "little")
        return "".join(chr(0x20 + (number >> 6 * i & 0x3F)) for i in range(len(raw) * 8 // 6)).strip()
    if coding == 1:
        return "".join("0123456789 -."[n] if n < 13 else "?" for byte in raw for n in (byte >> 4, byte & 15))
    return raw.decode("latin-1").replace("\0", "").strip()


def reading(record: SensorRecord, data: bytes) -> SensorReading:
    """What Get Sensor Reading answered, in the record's words."""
    if len(data) < 2:
        raise Malformed("a sensor reading is too short")
    kind = KINDS.get(record.sensor_type, f"type 0x{record.sensor_type:02x}")
    if data[1] & 0x20 or not data[1] & 0x40:
        return SensorReading(record.name, None, record.unit, Health.UNKNOWN, kind)
    states = data[2] if len(data) > 2 else 0
    if record.event_type != THRESHOLD:
        bits = states | (data[3] & 0x7F) << 8 if len(data) > 3 else states
        named = tuple(f"state {bit}" for bit in range(15) if bits >> bit & 1)
        return SensorReading(record.name, record.value(data[0]), record.unit, Health.OK, kind, named)
    crossed = [(words, health) for bit, words, health in THRESHOLD_STATES if states & bit]
    health = crossed[0][1] if crossed else Health.OK
    return SensorReading(record.name, record.value(data[0]), record.unit, health, kind, tuple(w for w, _ in crossed))
