"""The one face every BMC has, whatever it speaks."""

from typing import Protocol

from ipmi.readings import (
    BmcUser,
    BootDevice,
    BootOverride,
    EventEntry,
    Identity,
    PowerAction,
    PowerState,
    SensorReading,
)


class Console(Protocol):
    """An open serial console: bytes in both directions until one side ends it."""

    async def read(self) -> bytes:
        """The next bytes, at least one; empty when the console is over."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when the BMC has taken all of it."""
        ...

    async def close(self) -> None: ...


class Bmc(Protocol):
    """Every method ends in time, with an answer or a `BmcFault`; changes are read back before it returns."""

    @property
    def address(self) -> str: ...

    async def power(self) -> PowerState: ...

    async def set_power(self, action: PowerAction) -> PowerState:
        """Returns the state that was read back; `soft` only asks the operating system and does not wait."""
        ...

    async def boot_device(self) -> BootOverride: ...

    async def set_boot_device(self, device: BootDevice, *, persistent: bool = False, uefi: bool = False) -> None: ...

    async def identify(self, seconds: int) -> None:
        """Blink the locator light for so long; 0 stops it."""
        ...

    async def identity(self) -> Identity: ...

    async def sensors(self) -> tuple[SensorReading, ...]: ...

    async def event_log(self) -> tuple[EventEntry, ...]: ...

    async def event_log_stamp(self) -> str:
        """Changes when the log does, and costs one question; empty when this BMC cannot tell."""
        ...

    async def clear_event_log(self) -> None: ...

    async def users(self) -> tuple[BmcUser, ...]: ...

    async def set_password(self, user: str, password: str) -> None: ...

    async def open_console(self) -> Console: ...

    async def close(self) -> None:
        """Log out; a BMC has few sessions and keeps forgotten ones for a minute."""
        ...
