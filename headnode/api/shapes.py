"""What the API answers with, for its document; a test holds every answer against it."""

from typing import Any

from headnode.api.operation import Shown


class Port(Shown):
    network: str
    mac: str
    address: str | None


class NodeShown(Shown):
    name: str
    state: str
    intent: str
    profile: str
    mac: str | None
    address: str | None
    bmc: str | None
    bmc_mac: str | None
    rack: str | None
    position: int | None
    groups: list[str]
    locked: bool
    reason: str | None
    nics: list[Port]
    settings: dict[str, Any]


class Effective(Shown):
    value: Any
    source: str


class NodeDescribed(NodeShown):
    effective: dict[str, Effective]
    """Every value in effect and who gave it."""


class NodePage(Shown):
    items: list[dict[str, Any]]
    """Nodes, or the fields of them that were asked for."""
    total: int
    """How many fit in all."""
    next: str | None
    """Give this as `after` to read on."""


class EventShown(Shown):
    id: int
    at: str
    node: str | None
    kind: str
    severity: str
    actor: str
    cause: str
    message: str
    data: dict[str, Any]


class DeploymentShown(Shown):
    id: int
    node: str
    intent: str
    image: str | None
    started: str
    deadline: str
    step: str | None
    percent: int | None
    finished: str | None
    result: str | None
    reason: str | None


class NodeAnswer(Shown):
    name: str
    status: str
    error: str | None
    hint: str | None


class JobShown(Shown):
    id: str
    title: str
    state: str
    """running, done or failed."""
    who: str
    started: str
    finished: str | None
    error: str | None
    hint: str | None
    answers: list[NodeAnswer]
    lines: list[str]


class PlannedShown(Shown):
    node: str
    text: str


class Preview(Shown):
    action: str
    count: int
    """Send this back as `count`."""
    lines: list[PlannedShown]


class RowShown(Shown):
    name: str
    verdict: str
    """new, unchanged or problem."""
    address: str | None
    profile: str | None
    problems: list[str]


class Enrolment(Shown):
    rows: list[RowShown]
    summary: str


class SightingShown(Shown):
    mac: str
    vendor: str | None
    first: str
    last: str
    architecture: str | None
    client_id: str | None


class WindowShown(Shown):
    until: str | None
    first: str | None
    last: str | None


class ImageShown(Shown):
    reference: str
    name: str
    version: int
    size: int
    unpacked_size: int
    sha256: str
    manifest: dict[str, Any]


class PackageChange(Shown):
    package: str
    before: str | None
    after: str | None


class FileShown(Shown):
    path: str
    content: str
    mode: str


class FileChange(Shown):
    path: str
    before: str | None
    after: str | None


class Published(Shown):
    nodes: int
    written: list[str]
    removed: list[str]
    warnings: list[str]


class FindingShown(Shown):
    check: str
    result: str
    message: str
    hint: str | None


class Found(Shown):
    address: str
    status: str
    vendor: str
    model: str
    serial: str
    firmware: str
    user: str
    password: str
    """given, vendor default or new, random; never the password itself."""
    node: str | None
    trouble: str


class AccountShown(Shown):
    name: str
    role: str
    created: str
    disabled: str | None
    second_factor: bool


class TokenShown(Shown):
    id: int
    label: str
    scope: str
    owner: str
    created: str
    expires: str
    used: str | None


class TokenMade(Shown):
    token: str
    """Shown once; only its digest is kept."""


class Invited(Shown):
    link: str
    """Good once, for two days."""


class EntryShown(Shown):
    id: int
    at: str
    who: str
    origin: str
    door: str
    action: str
    nodes: str
    result: str
    detail: str


class LineFound(Shown):
    at: float
    node: str
    text: str


class Counts(Shown):
    total: int
    states: dict[str, int]
    concerns: list[dict[str, Any]]
    running: list[DeploymentShown]


class UserShown(Shown):
    name: str
    number: int
    full_name: str
    email: str
    ssh_keys: list[str]
    shell: str
    home: str
    groups: list[str]
    locked: bool
    gid: int


class GroupShown(Shown):
    name: str
    number: int
    description: str
    members: list[str]
