"""IPMI commands as requests, and their answers as facts. Pure; a short answer is Malformed."""

from dataclasses import dataclass
from typing import Final

from ipmi.readings import BootDevice, BootOverride, PowerAction, PowerState
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.packet import Request

CHASSIS, SENSOR, APP, STORAGE = 0x00, 0x04, 0x06, 0x0A

GET_DEVICE_ID: Final = Request(APP, 0x01)
GET_SYSTEM_GUID: Final = Request(APP, 0x37)
GET_CHASSIS_STATUS: Final = Request(CHASSIS, 0x01)
GET_BOOT_FLAGS: Final = Request(CHASSIS, 0x09, b"\x05\x00\x00")
# Without this, BMCs forget the boot device unless the machine restarts within 60 seconds.
KEEP_BOOT_FLAGS: Final = Request(CHASSIS, 0x08, b"\x03\x08")
GET_SEL_INFO: Final = Request(STORAGE, 0x40)
RESERVE_SEL: Final = Request(STORAGE, 0x42)
GET_SDR_INFO: Final = Request(STORAGE, 0x20)
RESERVE_SDR: Final = Request(STORAGE, 0x22)
THIS_CHANNEL: Final = 0x0E

POWER_CODES: Final = {
    PowerAction.OFF: 0,
    PowerAction.ON: 1,
    PowerAction.CYCLE: 2,
    PowerAction.RESET: 3,
    PowerAction.SOFT: 5,
}
BOOT_CODES: Final = {
    BootDevice.NONE: 0,
    BootDevice.PXE: 1,
    BootDevice.DISK: 2,
    BootDevice.CDROM: 5,
    BootDevice.BIOS: 6,
}
BOOT_DEVICES: Final = {code: device for device, code in BOOT_CODES.items()}


@dataclass(frozen=True)
class DeviceId:
    manufacturer: int
    product: int
    firmware: str


@dataclass(frozen=True)
class UserAccess:
    slots: int
    enabled: bool
    privilege: int


def need(data: bytes, length: int) -> bytes:
    if len(data) < length:
        raise Malformed(f"an answer has {len(data)} bytes instead of {length}")
    return data


def chassis_control(action: PowerAction) -> Request:
    return Request(CHASSIS, 0x02, bytes((POWER_CODES[action],)))


def chassis_status(data: bytes) -> PowerState:
    return PowerState.ON if need(data, 1)[0] & 1 else PowerState.OFF


def chassis_identify(seconds: int) -> Request:
    """More than one byte of seconds means "until told otherwise", which has a flag of its own."""
    if seconds > 255:
        return Request(CHASSIS, 0x04, b"\x00\x01")
    return Request(CHASSIS, 0x04, bytes((max(0, seconds),)))


def set_boot_flags(device: BootDevice, *, persistent: bool, uefi: bool) -> Request:
    flags = 0x80 | (0x40 if persistent else 0) | (0x20 if uefi else 0)
    flags = 0 if device is BootDevice.NONE else flags
    return Request(CHASSIS, 0x08, bytes((0x05, flags, BOOT_CODES[device] << 2, 0, 0, 0)))


def boot_flags(data: bytes) -> BootOverride:
    """The device counts even when the valid bit is off: some BMCs never set it on reading."""
    flags, device = need(data, 4)[2:4]
    return BootOverride(
        device=BOOT_DEVICES.get(device >> 2 & 0x0F, BootDevice.NONE),
        persistent=bool(flags & 0x40),
        uefi=bool(flags & 0x20),
    )


def device_id(data: bytes) -> DeviceId:
    need(data, 11)
    return DeviceId(
        manufacturer=int.from_bytes(data[6:9], "little") & 0xFFFFF,
        product=int.from_bytes(data[9:11], "little"),
        firmware=f"{data[2] & 0x7F}.{data[3] >> 4}{data[3] & 0x0F}",
    )


def get_user_access(user: int) -> Request:
    return Request(APP, 0x44, bytes((THIS_CHANNEL, user)))


def user_access(data: bytes) -> UserAccess:
    need(data, 4)
    enabled = data[1] >> 6
    return UserAccess(
        slots=data[0] & 0x3F,
        # 0 is "unspecified" (older BMCs): then only the network bit tells.
        enabled=enabled == 1 or (enabled == 0 and bool(data[3] & 0x10)),
        privilege=data[3] & 0x0F,
    )


def get_user_name(user: int) -> Request:
    return Request(APP, 0x46, bytes((user,)))


def user_name(data: bytes) -> str:
    return data[:16].split(b"\0")[0].decode(errors="replace")


def set_user_password(user: int, password: bytes, *, test: bool = False) -> Request:
    """The 20-byte form of IPMI 2.0; `test` only asks whether this is the password."""
    return Request(APP, 0x47, bytes((0x80 | user, 3 if test else 2)) + password.ljust(20, b"\0"))


def get_sensor_reading(sensor: int) -> Request:
    return Request(SENSOR, 0x2D, bytes((sensor,)))


def get_sdr(reservation: bytes, record: int, offset: int, count: int) -> Request:
    return Request(STORAGE, 0x23, reservation + record.to_bytes(2, "little") + bytes((offset, count)))


def get_sel_entry(record: int) -> Request:
    return Request(STORAGE, 0x43, b"\0\0" + record.to_bytes(2, "little") + b"\x00\xff")


def clear_sel(reservation: bytes, *, status_only: bool = False) -> Request:
    return Request(STORAGE, 0x47, reservation + b"CLR" + (b"\x00" if status_only else b"\xaa"))


def get_fru_info(device: int) -> Request:
    return Request(STORAGE, 0x10, bytes((device,)))


def read_fru(device: int, offset: int, count: int) -> Request:
    return Request(STORAGE, 0x11, bytes((device,)) + offset.to_bytes(2, "little") + bytes((count,)))


def activate_sol() -> Request:
    """Encrypted and authenticated, first instance; without alerts and handshake tricks."""
    return Request(APP, 0x48, b"\x01\x01\xc0\x00\x00\x00")


def deactivate_sol() -> Request:
    return Request(APP, 0x49, b"\x01\x01\x00\x00\x00\x00")


def sol_size(data: bytes) -> int:
    """How many characters one packet to the BMC may carry; absurd sizes (byte-swapped ones) are tamed."""
    size = int.from_bytes(need(data, 6)[4:6], "little") - 4
    return min(255, size) if size > 0 else 32
