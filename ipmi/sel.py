"""System event log entries as sentences. Pure; what is not known is shown in hexadecimal, never dropped."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from ipmi.readings import EventEntry, Health
from ipmi.rmcp.errors import Malformed
from ipmi.sdr import KINDS

# Stamps below this are seconds since the BMC started: its clock was not set yet.
PRE_INIT: Final = 0x20000000
THRESHOLD_EVENTS: Final = {
    0x0: ("went below lower warning", Health.WARNING),
    0x2: ("went below lower critical", Health.CRITICAL),
    0x4: ("went below lower non-recoverable", Health.CRITICAL),
    0x7: ("went above upper warning", Health.WARNING),
    0x9: ("went above upper critical", Health.CRITICAL),
    0xB: ("went above upper non-recoverable", Health.CRITICAL),
}
# (sensor type, offset): the ones that end a GPU node's day.
SENSOR_EVENTS: Final[Mapping[tuple[int, int], tuple[str, Health]]] = {
    (0x05, 0): ("chassis was opened", Health.WARNING),
    (0x07, 0): ("processor internal error", Health.CRITICAL),
    (0x07, 1): ("processor thermal trip", Health.CRITICAL),
    (0x07, 5): ("processor configuration error", Health.CRITICAL),
    (0x07, 10): ("processor throttled", Health.WARNING),
    (0x07, 11): ("machine check", Health.CRITICAL),
    (0x08, 0): ("power supply present", Health.OK),
    (0x08, 1): ("power supply failed", Health.CRITICAL),
    (0x08, 2): ("power supply predicts failure", Health.WARNING),
    (0x08, 3): ("power supply lost its input", Health.CRITICAL),
    (0x09, 0): ("powered off", Health.OK),
    (0x09, 1): ("power cycled", Health.OK),
    (0x09, 4): ("input power lost", Health.CRITICAL),
    (0x09, 6): ("power unit failed", Health.CRITICAL),
    (0x0C, 0): ("correctable memory error", Health.WARNING),
    (0x0C, 1): ("uncorrectable memory error", Health.CRITICAL),
    (0x0C, 5): ("correctable memory error limit reached", Health.WARNING),
    (0x0D, 1): ("drive fault", Health.CRITICAL),
    (0x0D, 2): ("drive predicts failure", Health.WARNING),
    (0x0F, 0): ("firmware found an error at start", Health.CRITICAL),
    (0x0F, 1): ("firmware hang", Health.CRITICAL),
    (0x10, 2): ("event log cleared", Health.OK),
    (0x10, 4): ("event log full", Health.WARNING),
    (0x13, 0): ("front panel interrupt (NMI)", Health.WARNING),
    (0x13, 4): ("PCI parity error", Health.CRITICAL),
    (0x13, 5): ("PCI system error", Health.CRITICAL),
    (0x13, 7): ("bus correctable error", Health.WARNING),
    (0x13, 8): ("bus uncorrectable error", Health.CRITICAL),
    (0x13, 10): ("bus fatal error", Health.CRITICAL),
    (0x1F, 1): ("operating system booted from disk", Health.OK),
    (0x20, 1): ("operating system crashed", Health.CRITICAL),
    (0x23, 1): ("watchdog reset the machine", Health.CRITICAL),
    (0x23, 2): ("watchdog powered the machine off", Health.CRITICAL),
    (0x23, 3): ("watchdog power-cycled the machine", Health.CRITICAL),
}


def parse(record: bytes, sensor_names: Mapping[int, str]) -> EventEntry:
    if len(record) != 16:
        raise Malformed("an event log entry is not 16 bytes long")
    number = int.from_bytes(record[:2], "little")
    kind = record[2]
    at = stamp(record[3:7]) if kind < 0xE0 else None
    if kind != 0x02:
        return EventEntry(str(number), at, "OEM", f"OEM record 0x{kind:02x}: {record[3:].hex(' ')}", raw=record)
    sensor_type, sensor, event = record[10], record[11], record[12]
    message, health = describe(sensor_type, event & 0x7F, record[13:16])
    source = sensor_names.get(sensor) or f"{KINDS.get(sensor_type, 'sensor')} #{sensor}"
    asserted = not event & 0x80
    return EventEntry(
        id=str(number),
        at=at,
        source=source,
        message=message if asserted else f"{message} (over)",
        health=health if asserted else Health.OK,
        asserted=asserted,
        raw=record,
    )


def describe(sensor_type: int, event_type: int, data: bytes) -> tuple[str, Health]:
    offset = data[0] & 0x0F
    if event_type == 0x01:
        return THRESHOLD_EVENTS.get(offset, (f"crossed threshold {offset}", Health.UNKNOWN))
    if event_type == 0x6F and (sensor_type, offset) in SENSOR_EVENTS:
        return SENSOR_EVENTS[sensor_type, offset]
    kind = KINDS.get(sensor_type, f"sensor type 0x{sensor_type:02x}")
    return f"{kind} event 0x{event_type:02x}, offset {offset}, data {data.hex(' ')}", Health.UNKNOWN


def stamp(raw: bytes) -> datetime | None:
    seconds = int.from_bytes(raw, "little")
    if seconds < PRE_INIT or seconds == 0xFFFFFFFF:
        return None
    return datetime.fromtimestamp(seconds, UTC)
