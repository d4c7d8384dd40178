"""The words of DESIGN.md as data: frozen dataclasses and enumerations, no behaviour, no side effects."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from headnode.site import Site


class State(StrEnum):
    """Where a node is in its life; headnode/lifecycle.py says how it gets from one to the next."""

    SEEN = "seen"
    ENROLLED = "enrolled"
    INSPECTING = "inspecting"
    READY = "ready"
    DEPLOYING = "deploying"
    VERIFYING = "verifying"
    UP = "up"
    FAILED = "failed"
    MAINTENANCE = "maintenance"
    RETIRED = "retired"


class Intent(StrEnum):
    """What a node is told at its next network boot."""

    DISK = "disk"
    INSPECT = "inspect"
    DEPLOY = "deploy"
    RESCUE = "rescue"
    LIVE = "live"


class BmcDriver(StrEnum):
    AUTO = "auto"
    IPMI = "ipmi"
    REDFISH = "redfish"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Nic:
    mac: str
    network: str = "provision"
    address: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class BmcAccess:
    """Where a node's BMC is. User and driver are settings; the password stays sealed until it is used."""

    address: str
    mac: str | None = None
    sealed_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Node:
    name: str
    profile: str
    nics: tuple[Nic, ...] = ()
    bmc: BmcAccess | None = None
    state: State = State.ENROLLED
    intent: Intent = Intent.DISK
    rack: str | None = None
    position: int | None = None
    groups: tuple[str, ...] = ()
    locked: bool = False
    # What was set for this node alone; profiles, groups and site defaults give the rest (headnode/effective.py).
    settings: Mapping[str, Any] = field(default_factory=dict)
    phase: str | None = None
    reason: str | None = None
    deadline: datetime | None = None
    id: int = 0
    revision: int = 0

    @property
    def boot_nic(self) -> Nic | None:
        """The NIC it PXE-boots from: its first one on the provision network."""
        return next((nic for nic in self.nics if nic.network == "provision"), None)

    @property
    def address(self) -> str | None:
        return self.boot_nic.address if self.boot_nic else None

    @property
    def mac(self) -> str | None:
        return self.boot_nic.mac if self.boot_nic else None


@dataclass(frozen=True)
class Event:
    """One line of the append-only history: who did what to which node, and because of what."""

    kind: str
    message: str
    actor: str
    cause: str
    node: str | None = None
    severity: Severity = Severity.INFO
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    id: int = 0


@dataclass(frozen=True)
class Sighting:
    """Hardware that asked for an address and is nobody's node yet."""

    mac: str
    first: datetime
    last: datetime
    architecture: str | None = None
    client_id: str | None = None


@dataclass(frozen=True)
class Window:
    """Unknown hardware is lent an address from this range until this moment, and no longer."""

    until: datetime
    first: str
    last: str


@dataclass(frozen=True)
class Deployment:
    """One piece of work that the agent does on a node: inspect, deploy or rescue."""

    node: str
    intent: Intent
    started: datetime
    deadline: datetime
    image: str | None = None
    # Serial numbers of disks that may be erased although they hold something of somebody else's.
    consent: tuple[str, ...] = ()
    step: str | None = None
    percent: int | None = None
    # Bytes of the image that are on the node, and how many there are in all.
    received: int | None = None
    total: int | None = None
    finished: datetime | None = None
    result: str | None = None
    reason: str | None = None
    id: int = 0


class Holder(StrEnum):
    """Whose a number is; a user's is also that of their own group."""

    USER = "user"
    GROUP = "group"


@dataclass(frozen=True)
class Numbered:
    """A UID or GID and who has it, or had it: nobody else ever will."""

    number: int
    kind: Holder
    name: str
    given: datetime
    removed: datetime | None = None


@dataclass(frozen=True)
class File:
    """A file somebody else's program will read, as it should be on disk."""

    content: bytes
    mode: int = 0o644


Files = Mapping[str, File]


class Producer(Protocol):
    """One kind of configuration: it renders files, and knows the program that can judge them.

    Rendering is pure. `node_files` must depend on nothing but its arguments, so that a change of one
    node is published by rendering one node.
    """

    name: str

    def site_files(self, site: "Site") -> Files: ...

    def node_files(self, site: "Site", node: Node) -> Files: ...

    def check(self, staged: "Path", live: "Path", changed: Iterable[str]) -> list[str]:
        """Ask the program that will read the changed files; returns warnings, raises PublishFailed."""
        ...
