"""A BMC that speaks Redfish: sushy in threads of our own, each call with a deadline."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, TypeVar

import sushy
from requests.adapters import HTTPAdapter
from sushy import exceptions

from ipmi import redfish_facts as facts
from ipmi.bmc import Console
from ipmi.faults import (
    BadAnswer,
    BmcFault,
    NoFreeSession,
    Refused,
    SaidYesDidNothing,
    TimedOut,
    Unreachable,
    Unsupported,
    WrongCredentials,
)
from ipmi.readings import (
    BmcUser,
    BootDevice,
    BootOverride,
    Credentials,
    EventEntry,
    Identity,
    PowerAction,
    PowerState,
    SensorReading,
)

Fact = TypeVar("Fact")
Tree = dict[str, Any]
# Redfish services compose each answer from many places and are slow by nature.
DEADLINE: Final = 15.0
SETTLE: Final = 20.0
LOOK_AGAIN: Final = 0.5
THREADS: Final = 64
POWER: Final = {
    PowerAction.ON: sushy.ResetType.ON,
    PowerAction.OFF: sushy.ResetType.FORCE_OFF,
    PowerAction.CYCLE: sushy.ResetType.FORCE_RESTART,
    PowerAction.RESET: sushy.ResetType.FORCE_RESTART,
    PowerAction.SOFT: sushy.ResetType.GRACEFUL_SHUTDOWN,
}
BOOT: Final = {
    BootDevice.NONE: sushy.BootSource.NONE,
    BootDevice.PXE: sushy.BootSource.PXE,
    BootDevice.DISK: sushy.BootSource.HDD,
    BootDevice.CDROM: sushy.BootSource.CD,
    BootDevice.BIOS: sushy.BootSource.BIOS_SETUP,
}
DEVICES: Final = {source: device for device, source in BOOT.items()}


@cache
def threads() -> ThreadPoolExecutor:
    """asyncio's own pool has six threads here; a few silent BMCs would hold them all."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="redfish")


class From(HTTPAdapter):
    """Connections from one address of ours, so that the management network's alone is used, whatever the routes say."""

    def __init__(self, local_address: str) -> None:
        self.local_address = local_address
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options, source_address=(self.local_address, 0))


class RedfishBmc:
    def __init__(
        self,
        base_url: str,
        credentials: Credentials,
        *,
        system: str | None = None,
        ca_file: str | None = None,
        local_address: str = "",
        deadline: float = DEADLINE,
        settle: float = SETTLE,
    ) -> None:
        self.base_url = base_url
        self.credentials = credentials
        self.system_path = system
        # BMCs come with certificates of their own making; a site that gave them real ones names its CA.
        self.verify: str | bool = ca_file or False
        self.local_address = local_address
        self.deadline = deadline
        self.settle = settle
        self.turn = asyncio.Lock()
        self.busy = threading.Lock()
        self.auth: Any = None
        self.connector: Any = None
        self.root: Any = None
        self.system: Any = None

    @property
    def address(self) -> str:
        return self.base_url.split("//")[-1].split("/")[0]

    # -- calling -----------------------------------------------------------------------------------------

    async def call(self, work: Callable[[], Fact], what: str) -> Fact:
        """Run sushy in a thread; the deadline frees us, sushy's own timeouts free the thread soon after."""
        async with self.turn:
            try:
                async with asyncio.timeout(self.deadline):
                    return await asyncio.get_running_loop().run_in_executor(threads(), self.guarded, work)
            except TimeoutError as error:
                raise TimedOut(f"BMC {self.address} took over {self.deadline:g} s to {what}") from error
            except exceptions.SushyError as error:
                raise self.fault(error, what) from error
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise BadAnswer(f"BMC {self.address}, asked to {what}, sent nonsense: {error}") from error

    def guarded(self, work: Callable[[], Fact]) -> Fact:
        # A call that missed its deadline may still be in its thread, and HTTP sessions are not for two.
        if not self.busy.acquire(timeout=self.deadline):
            raise TimedOut(f"BMC {self.address} still works on an earlier request")
        try:
            if self.system is None:
                self.log_in()
            return work()
        finally:
            self.busy.release()

    def log_in(self) -> None:
        library: Any = sushy  # it has no types
        self.auth = library.auth.SessionOrBasicAuth(self.credentials.user, self.credentials.password)
        self.connector = library.connector.Connector(
            self.base_url,
            verify=self.verify,
            server_side_retries=1,
            server_side_retries_delay=1,
            default_request_timeout=self.deadline,
            connect_timeout=min(self.deadline, 3.0),
        )
        session = self.connector._session
        # A proxy in the environment is for the world outside; a BMC's password is not to pass through it.
        session.trust_env = False
        if self.local_address:
            for scheme in ("http://", "https://"):
                session.mount(scheme, From(self.local_address))
        self.root = library.Sushy(self.base_url, auth=self.auth, connector=self.connector)
        if self.system_path is None:
            members = self.root.get_system_collection().members_identities
            if len(members) != 1:
                raise Unsupported(f"BMC {self.address} has {len(members)} systems; say which one to use")
            self.system_path = members[0]
        self.system = self.root.get_system(self.system_path)

    def fault(self, error: exceptions.SushyError, what: str) -> BmcFault:
        code = getattr(error, "status_code", None)
        if isinstance(error, exceptions.AccessError):
            return WrongCredentials(f"BMC {self.address} does not let '{self.credentials.user}' {what}")
        if isinstance(error, exceptions.ConnectionError):
            return Unreachable(f"BMC {self.address} cannot be reached to {what}")
        if isinstance(error, (exceptions.ResourceNotFoundError, exceptions.MissingAttributeError)) or code in (
            405,
            501,
        ):
            return Unsupported(f"BMC {self.address} cannot {what}")
        if code == 503:
            return NoFreeSession(f"BMC {self.address} is too busy to {what}")
        if isinstance(error, exceptions.HTTPError):
            return Refused(f"BMC {self.address} refused to {what}: {error.detail or error}", code=code or 0)
        return Unsupported(f"BMC {self.address} cannot {what}: {error}")

    def get(self, path: str) -> Tree:
        """One resource as it is; sushy has no classes for sensors, logs and accounts."""
        tree = self.connector.get(path).json()
        if not isinstance(tree, dict):
            raise ValueError(f"{path} is not an object")
        return tree

    async def becomes(self, look: Callable[[], Awaitable[Fact]], good: Callable[[Fact], bool]) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.settle
        while not good(await look()):
            if loop.time() >= end:
                return False
            await asyncio.sleep(LOOK_AGAIN)
        return True

    # -- power, boot device, light -----------------------------------------------------------------------

    async def power(self) -> PowerState:
        def look() -> PowerState:
            self.system.refresh(force=True)
            # "Powering on" still draws power, "powering off" still runs.
            return PowerState.OFF if self.system.power_state is sushy.PowerState.OFF else PowerState.ON

        return await self.call(look, "tell its power state")

    async def set_power(self, action: PowerAction) -> PowerState:
        before = await self.power()
        if action is PowerAction.CYCLE and before is PowerState.OFF:
            action = PowerAction.ON
        wanted = {PowerAction.ON: PowerState.ON, PowerAction.OFF: PowerState.OFF}.get(action)
        if wanted is before:
            return before  # Redfish services answer "on" to what is on with an error
        await self.call(lambda: self.system.reset_system(POWER[action]), f"power {action}")
        if wanted is None:
            return await self.power()
        if not await self.becomes(self.power, lambda state: state is wanted):
            raise SaidYesDidNothing(
                f"BMC {self.address} accepted 'power {action}', but is not {wanted} after {self.settle:g} s"
            )
        return wanted

    async def boot_device(self) -> BootOverride:
        def look() -> BootOverride:
            self.system.refresh(force=True)
            boot = self.system.boot
            enabled = boot.get("enabled")
            if enabled is None or enabled is sushy.BootSourceOverrideEnabled.DISABLED:
                return BootOverride(BootDevice.NONE)
            return BootOverride(
                device=DEVICES.get(boot.get("target"), BootDevice.NONE),
                persistent=enabled is sushy.BootSourceOverrideEnabled.CONTINUOUS,
                uefi=boot.get("mode") is sushy.BootSourceOverrideMode.UEFI,
            )

        return await self.call(look, "tell its boot device")

    async def set_boot_device(self, device: BootDevice, *, persistent: bool = False, uefi: bool = False) -> None:
        enabled = sushy.BootSourceOverrideEnabled.ONCE
        if device is BootDevice.NONE:
            enabled = sushy.BootSourceOverrideEnabled.DISABLED
        elif persistent:
            enabled = sushy.BootSourceOverrideEnabled.CONTINUOUS
        mode = sushy.BootSourceOverrideMode.UEFI if uefi else None
        what = f"boot from {device}"
        await self.call(lambda: self.system.set_system_boot_options(BOOT[device], enabled, mode), what)
        if not await self.becomes(self.boot_device, lambda now: now.device is device):
            raise SaidYesDidNothing(f"BMC {self.address} accepted to {what}, but reading back says otherwise")

    async def identify(self, seconds: int) -> None:
        """Redfish has no timer for the light: it stays on until it is told to stop."""
        led = sushy.IndicatorLED.BLINKING if seconds else sushy.IndicatorLED.OFF
        what = "blink its locator light"
        try:
            await self.call(lambda: self.system.set_indicator_led(led), what)
        except Refused as error:
            raise Unsupported(f"BMC {self.address} cannot {what}") from error

    # -- facts -------------------------------------------------------------------------------------------

    async def identity(self) -> Identity:
        return await self.call(lambda: facts.identity(self.system.json, self.manager()), "say who it is")

    def manager(self) -> Tree:
        managers = (self.system.json.get("Links") or {}).get("ManagedBy") or []
        return self.get(managers[0]["@odata.id"]) if managers else {}

    async def sensors(self) -> tuple[SensorReading, ...]:
        def look() -> tuple[SensorReading, ...]:
            chassis = (self.system.json.get("Links") or {}).get("Chassis") or []
            trees = [self.get(link["@odata.id"]) for link in chassis]
            found: list[SensorReading] = []
            for tree in trees:
                for part in ("Thermal", "Power"):
                    if part in tree:
                        found.extend(facts.readings(self.get(tree[part]["@odata.id"])))
            return tuple(found)

        return await self.call(look, "read its sensors")

    async def event_log(self) -> tuple[EventEntry, ...]:
        def look() -> tuple[EventEntry, ...]:
            entries = [self.get(service["Entries"]["@odata.id"]) for service in self.log_services()]
            return tuple(facts.event(tree) for page in entries for tree in page.get("Members", []))

        return await self.call(look, "read its event log")

    async def event_log_stamp(self) -> str:
        return ""

    async def clear_event_log(self) -> None:
        def clear() -> None:
            for service in self.log_services():
                action = (service.get("Actions") or {}).get("#LogService.ClearLog")
                if action is not None:
                    self.connector.post(action["target"], data={})

        await self.call(clear, "clear its event log")

    def log_services(self) -> list[Tree]:
        link = self.system.json.get("LogServices") or self.manager().get("LogServices")
        if link is None:
            raise Unsupported(f"BMC {self.address} has no event log")
        services = [self.get(member["@odata.id"]) for member in self.get(link["@odata.id"])["Members"]]
        return [service for service in services if "Entries" in service]

    # -- users, console, end -----------------------------------------------------------------------------

    def accounts(self) -> list[Tree]:
        service = self.root.json.get("AccountService")
        if service is None:
            raise Unsupported(f"BMC {self.address} has no list of users")
        members = self.get(self.get(service["@odata.id"])["Accounts"]["@odata.id"])["Members"]
        return [self.get(member["@odata.id"]) for member in members]

    async def users(self) -> tuple[BmcUser, ...]:
        return await self.call(lambda: tuple(map(facts.user, self.accounts())), "list its users")

    async def set_password(self, user: str, password: str) -> None:
        def change() -> None:
            account = next((a for a in self.accounts() if a.get("UserName") == user), None)
            if account is None:
                raise Refused(f"BMC {self.address} has no user '{user}'")
            self.connector.patch(account["@odata.id"], data={"Password": password})

        await self.call(change, f"set the password of '{user}'")
        if user == self.credentials.user:
            await self.close()
            self.credentials = Credentials(user, password)

    async def open_console(self) -> Console:
        raise Unsupported(
            f"BMC {self.address} offers no serial console over Redfish",
            hint="its console usually is there over IPMI: set the BMC's driver to 'ipmi' or 'auto'",
        )

    async def close(self) -> None:
        """Log out, or the BMC keeps the session for half an hour."""
        if self.auth is None:
            return
        session, self.auth, self.system = self.auth, None, None
        try:
            async with asyncio.timeout(self.deadline):
                await asyncio.get_running_loop().run_in_executor(threads(), session.close)
        except (TimeoutError, exceptions.SushyError, AttributeError):
            return  # it was no session but a password with each request, or the BMC is gone
