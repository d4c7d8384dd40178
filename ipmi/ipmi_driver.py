"""A BMC that speaks IPMI 2.0: the verbs of `Bmc` as conversations over one link."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, TypeVar

from ipmi import fru, requests, sdr, sel
from ipmi.bmc import Console
from ipmi.completion import NOT_NOW, UNSUPPORTED, fault_for
from ipmi.faults import (
    BadAnswer,
    BmcFault,
    Refused,
    SaidYesDidNothing,
    TimedOut,
    Unsupported,
    WrongCredentials,
)
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
from ipmi.records import sdr_records, sel_records
from ipmi.rmcp.engine import IPMI_PORT, Engine
from ipmi.rmcp.errors import Malformed
from ipmi.rmcp.link import Link
from ipmi.rmcp.packet import Request, Response
from ipmi.sol_console import SolConsole
from ipmi.vendors import VENDORS

Fact = TypeVar("Fact")
ROLES: Final = {1: "callback", 2: "user", 3: "operator", 4: "administrator", 5: "oem", 15: "none"}
# Servers take seconds to admit that they went off: power rails, then the BMC's own polling.
SETTLE: Final = 10.0
LOOK_AGAIN: Final = 0.25
# Reading hundreds of records is many commands, each with its own deadline; this bounds them together.
LONG_READ: Final = 60.0
# IPMI 2.0 allows 20 bytes.
LONGEST_PASSWORD: Final = 16


class IpmiBmc:
    def __init__(self, link: Link, *, settle: float = SETTLE) -> None:
        self.link = link
        self.settle = settle
        self.sensor_records: tuple[sdr.SensorRecord, ...] = ()
        self.sensor_stamp = b""

    @classmethod
    async def connect(
        cls,
        engine: Engine,
        host: str,
        user: str,
        password: str,
        *,
        port: int = IPMI_PORT,
        settle: float = SETTLE,
    ) -> "IpmiBmc":
        from ipmi.readings import Credentials

        return cls(await engine.link(host, Credentials(user, password), port=port), settle=settle)

    @property
    def address(self) -> str:
        return self.link.address[0]

    # -- asking ------------------------------------------------------------------------------------------

    async def ask(
        self,
        request: Request,
        what: str,
        *,
        words: Mapping[int, str] | None = None,
        repeatable: bool = True,
    ) -> bytes:
        answer = await self.link.ask(request, repeatable=repeatable)
        if answer.code:
            raise fault_for(answer.code, self.address, what, words)
        return answer.data

    async def raw(self, request: Request) -> Response:
        """Any command, with its completion code: for what has no verb here."""
        return await self.link.ask(request)

    def understood(self, parse: Callable[[bytes], Fact], data: bytes, what: str) -> Fact:
        try:
            return parse(data)
        except Malformed as error:
            raise BadAnswer(f"BMC {self.address}, asked to {what}: {error}") from error

    @asynccontextmanager
    async def long_read(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(LONG_READ):
                yield
        except TimeoutError as error:
            raise TimedOut(f"BMC {self.address} took over {LONG_READ:g} s to {what}") from error
        except Malformed as error:
            raise BadAnswer(f"BMC {self.address}, asked to {what}: {error}") from error

    # -- power -------------------------------------------------------------------------------------------

    async def power(self) -> PowerState:
        data = await self.ask(requests.GET_CHASSIS_STATUS, "tell its power state")
        return self.understood(requests.chassis_status, data, "tell its power state")

    async def set_power(self, action: PowerAction) -> PowerState:
        if action is PowerAction.CYCLE and await self.power() is PowerState.OFF:
            action = PowerAction.ON  # BMCs refuse to cycle what is off, and on is what was meant
        await self.command_power(action)
        match action:
            case PowerAction.ON:
                return await self.power_becomes(PowerState.ON, action)
            case PowerAction.OFF:
                return await self.power_becomes(PowerState.OFF, action)
            case PowerAction.CYCLE:
                # The specification's cycle stays off for a second at least, so going off must be visible.
                await self.power_becomes(PowerState.OFF, action)
                return await self.power_becomes(PowerState.ON, action)
            case _:
                return await self.power()

    async def command_power(self, action: PowerAction) -> None:
        what = f"power {action}"
        try:
            await self.ask(requests.chassis_control(action), what, repeatable=False)
        except Refused as refusal:
            # Some refuse "on" when it is on; reading back will tell.
            if refusal.code != NOT_NOW or action not in (PowerAction.ON, PowerAction.OFF):
                raise

    async def power_becomes(self, wanted: PowerState, action: PowerAction) -> PowerState:
        if not await self.becomes(self.power, lambda state: state is wanted):
            raise SaidYesDidNothing(
                f"BMC {self.address} accepted 'power {action}', but is not {wanted} after {self.settle:g} s"
            )
        return wanted

    async def becomes(self, look: Callable[[], Awaitable[Fact]], good: Callable[[Fact], bool]) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settle
        while True:
            if good(await look()):
                return True
            if loop.time() >= end:
                return False
            await asyncio.sleep(LOOK_AGAIN)

    # -- boot device, light ------------------------------------------------------------------------------

    async def boot_device(self) -> BootOverride:
        data = await self.ask(requests.GET_BOOT_FLAGS, "tell its boot device")
        return self.understood(requests.boot_flags, data, "tell its boot device")

    async def set_boot_device(self, device: BootDevice, *, persistent: bool = False, uefi: bool = False) -> None:
        what = f"boot from {device}"
        answer = await self.link.ask(requests.KEEP_BOOT_FLAGS)
        if answer.code and answer.code not in UNSUPPORTED and answer.code < 0xC0:
            raise fault_for(answer.code, self.address, what)
        await self.ask(requests.set_boot_flags(device, persistent=persistent, uefi=uefi), what)
        try:
            obeyed = await self.becomes(self.boot_device, lambda now: now.device is device)
        except Unsupported:
            return  # it takes boot devices and cannot tell them
        if not obeyed:
            raise SaidYesDidNothing(f"BMC {self.address} accepted to {what}, but reading back says otherwise")

    async def identify(self, seconds: int) -> None:
        await self.ask(requests.chassis_identify(seconds), "blink its locator light")

    # -- who it is ---------------------------------------------------------------------------------------

    async def identity(self) -> Identity:
        what = "say who it is"
        device = self.understood(requests.device_id, await self.ask(requests.GET_DEVICE_ID, what), what)
        async with self.long_read(what):
            facts = await self.fru_facts()
            guid = await self.guid()
        vendor = VENDORS.get(device.manufacturer, f"vendor {device.manufacturer}")
        return Identity(
            driver="ipmi",
            vendor=facts.get("product vendor") or facts.get("board vendor") or vendor,
            model=facts.get("product model") or facts.get("board model") or f"product {device.product}",
            serial=facts.get("product serial") or facts.get("board serial") or "",
            firmware=device.firmware,
            guid=guid,
            facts=(("bmc vendor", vendor), ("bmc product", str(device.product)), *sorted(facts.items())),
        )

    async def guid(self) -> str:
        answer = await self.link.ask(requests.GET_SYSTEM_GUID)
        if answer.code or len(answer.data) != 16:
            return ""
        return str(uuid.UUID(bytes_le=answer.data))

    async def fru_facts(self) -> dict[str, str]:
        info = await self.link.ask(requests.get_fru_info(0))
        if info.code or len(info.data) < 2:
            return {}
        size = min(int.from_bytes(info.data[:2], "little"), 4096)
        data = b""
        while len(data) < size:
            answer = await self.link.ask(requests.read_fru(0, len(data), min(32, size - len(data))))
            if answer.code or not answer.data[1:]:
                break
            data += answer.data[1:]
        try:
            return fru.parse(data)
        except Malformed:
            return {}  # unprogrammed boards are common and no fault

    # -- sensors, event log ------------------------------------------------------------------------------

    async def sensors(self) -> tuple[SensorReading, ...]:
        what = "read its sensors"
        async with self.long_read(what):
            await self.load_sensor_records(what)
            readings = []
            for record in self.sensor_records:
                answer = await self.link.ask(requests.get_sensor_reading(record.number))
                # A sensor that is listed and not there (an empty slot) is normal: keep the rest.
                data = answer.data if not answer.code else b"\x00\x20"
                readings.append(sdr.reading(record, data))
            return tuple(readings)

    async def load_sensor_records(self, what: str) -> None:
        """The records seldom change; their repository says when they did."""
        stamp = await self.ask(requests.GET_SDR_INFO, what)
        if stamp != self.sensor_stamp:
            found = [sdr.parse(record) async for record in sdr_records(self.ask)]
            self.sensor_records = tuple(record for record in found if record is not None and record.lun == 0)
            self.sensor_stamp = stamp

    async def event_log(self) -> tuple[EventEntry, ...]:
        what = "read its event log"
        async with self.long_read(what):
            names: dict[int, str] = {}
            try:
                await self.load_sensor_records(what)
                names = {record.number: record.name for record in self.sensor_records}
            except (Refused, Unsupported, Malformed):
                pass  # entries are then named by sensor number
            return tuple([sel.parse(record, names) async for record in sel_records(self.ask)])

    async def event_log_stamp(self) -> str:
        info = await self.ask(requests.GET_SEL_INFO, "tell about its event log")
        # Without the free space in between, which some BMCs recompute at every question.
        return (info[1:3] + info[5:13]).hex()

    async def clear_event_log(self) -> None:
        what = "clear its event log"
        reservation = (await self.ask(requests.RESERVE_SEL, what))[:2]
        await self.ask(requests.clear_sel(reservation), what)

        async def erased() -> bytes:
            return await self.ask(requests.clear_sel(reservation, status_only=True), what)

        if not await self.becomes(erased, lambda status: bool(status) and status[0] & 0x0F == 1):
            raise SaidYesDidNothing(f"BMC {self.address} accepted to {what}, but did not finish")

    # -- users -------------------------------------------------------------------------------------------

    async def users(self) -> tuple[BmcUser, ...]:
        what = "list its users"
        found = []
        async with self.long_read(what):
            slots = requests.user_access(await self.ask(requests.get_user_access(1), what)).slots
            for number in range(1, min(slots, 63) + 1):
                name = await self.link.ask(requests.get_user_name(number))
                if name.code or not requests.user_name(name.data):
                    continue
                access = requests.user_access(await self.ask(requests.get_user_access(number), what))
                role = ROLES.get(access.privilege, "none")
                found.append(BmcUser(str(number), requests.user_name(name.data), access.enabled, role))
        return tuple(found)

    async def set_password(self, user: str, password: str) -> None:
        secret = password.encode()
        if not 1 <= len(secret) <= LONGEST_PASSWORD:
            raise Unsupported(
                f"a BMC password has 1 to {LONGEST_PASSWORD} bytes: many BMCs cut longer ones without a word"
            )
        slot = next((int(u.id) for u in await self.users() if u.name == user), None)
        if slot is None:
            raise Refused(f"BMC {self.address} has no user '{user}'")
        what = f"set the password of '{user}'"
        await self.ask(requests.set_user_password(slot, secret), what)
        test = await self.link.ask(requests.set_user_password(slot, secret, test=True))
        if test.code and test.code not in UNSUPPORTED:
            raise SaidYesDidNothing(f"BMC {self.address} accepted to {what}, but does not know the new one")
        if user == self.link.credentials.user:
            await self.prove_login(password)

    async def prove_login(self, password: str) -> None:
        """Log in anew with it: only that proves a password, and the old one is not forgotten before."""
        old = self.link.credentials
        await self.link.close()
        self.link.credentials = replace(old, password=password)
        self.link.forgive()
        try:
            await self.ask(requests.GET_DEVICE_ID, "log in with the new password")
        except WrongCredentials as error:
            self.link.credentials = old
            self.link.forgive()
            raise SaidYesDidNothing(
                f"BMC {self.address} accepted a new password for '{old.user}', but does not let it in"
            ) from error

    # -- console, end ------------------------------------------------------------------------------------

    async def open_console(self) -> Console:
        return await SolConsole.open(self.link)

    async def close(self) -> None:
        try:
            await self.link.engine.unlink(self.link)
        except BmcFault:
            return
