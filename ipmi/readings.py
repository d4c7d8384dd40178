"""What BMCs are asked for and what they answer, the same for IPMI and Redfish."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class PowerState(StrEnum):
    ON = "on"
    OFF = "off"


class PowerAction(StrEnum):
    ON = "on"
    OFF = "off"
    CYCLE = "cycle"
    RESET = "reset"
    SOFT = "soft"


class BootDevice(StrEnum):
    """What to boot next; `none` removes an override, so that the firmware's own order counts again."""

    NONE = "none"
    PXE = "pxe"
    DISK = "disk"
    CDROM = "cdrom"
    BIOS = "bios"


class Health(StrEnum):
    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Credentials:
    """Kept out of every repr, so that no log line or traceback can show the password."""

    user: str
    password: str = field(repr=False)
    # The BMC-wide key of IPMI, which few sites set; empty means that the password serves for it too.
    bmc_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class BootOverride:
    device: BootDevice
    persistent: bool = False
    uefi: bool = False


@dataclass(frozen=True)
class SensorReading:
    name: str
    # None when the sensor exists but says nothing now (a GPU's temperature while the power is off).
    value: float | None
    unit: str
    health: Health = Health.OK
    kind: str = ""
    states: tuple[str, ...] = ()


@dataclass(frozen=True)
class EventEntry:
    """One line of the BMC's own event log."""

    id: str
    # None when the BMC's clock was not set yet ("pre-init" stamps).
    at: datetime | None
    source: str
    message: str
    health: Health = Health.UNKNOWN
    asserted: bool = True
    raw: bytes = b""


@dataclass(frozen=True)
class Identity:
    """Who the BMC and its machine say they are; empty where it does not say."""

    driver: str
    vendor: str = ""
    model: str = ""
    serial: str = ""
    firmware: str = ""
    guid: str = ""
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class BmcUser:
    id: str
    name: str
    enabled: bool
    role: str
