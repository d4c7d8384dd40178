"""The people's door as data: who may come in, as what, and what was done."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """Each may do what the one before may, and more."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    def may(self, needed: "Role") -> bool:
        return self.rank >= needed.rank


@dataclass(frozen=True)
class Account:
    name: str
    role: Role
    created: datetime
    password: str | None = field(default=None, repr=False)
    sealed_totp: str | None = field(default=None, repr=False)
    totp_step: int | None = None
    disabled: datetime | None = None
    id: int = 0


@dataclass(frozen=True)
class Invitation:
    role: Role
    expires: datetime
    name: str | None = None


@dataclass(frozen=True)
class ApiToken:
    label: str
    scope: Role
    created: datetime
    expires: datetime
    used: datetime | None = None
    owner: str = ""
    id: int = 0


@dataclass(frozen=True)
class Entry:
    """One line of the audit log."""

    who: str
    origin: str
    door: str
    action: str
    nodes: str = ""
    result: str = "done"
    detail: str = ""
    at: datetime | None = None
    id: int = 0


@dataclass(frozen=True)
class Reply:
    """How a write was answered; `status` is missing while it is still under way."""

    request: str
    status: int | None
    body: bytes = b""
