"""The people's door: who comes in and with what. Handlers of the API and the pages only call these."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from headnode import fields, vault
from headnode.accounts import Account, Invitation, Role
from headnode.errors import HeadnodeError, InvalidField, InvalidInput, NotFound
from headnode.log import logger
from headnode.workflows import people
from headnode.workflows.context import Context
from headnode.workflows.standing import role_in

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 200
INVITED_FOR = timedelta(days=2)
TOKENS_LAST = timedelta(days=366)
TOTP_SECONDS = 30
# Each takes 64 MB and all of a processor for a while, so only so many are computed at once. The rest wait their turn;
# not too many of them, or no thread would be left for those who are in.
HASHES_AT_ONCE, MOST_IN_LINE = 2, 24
hashing = threading.BoundedSemaphore(HASHES_AT_ONCE)
line = threading.BoundedSemaphore(MOST_IN_LINE)


class Refused(HeadnodeError):
    """The same sentence whatever was wrong: it tells a guesser nothing."""


class TooMany(HeadnodeError):
    """Somebody guesses, or everybody comes at once; `wait` says for how many seconds nothing is tried."""

    def __init__(self, wait: float, why: str = "too many failed logins") -> None:
        super().__init__(f"{why}; try again in {max(1, round(wait))} seconds")
        self.wait = wait


@dataclass
class Brake:
    """After a few failures each further one doubles the pause, for a name and for an address. In memory only."""

    free: int = 5
    longest: float = 900.0
    most: int = 10_000
    # Key → failures, and the moment from which the next try is heard.
    failures: dict[str, tuple[int, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def attempt(self, keys: tuple[str, ...], now: float) -> None:
        """A try counts as a failure until it has succeeded: of many at once, no more are heard than one by one."""
        with self.lock:
            wait = max((self.failures.get(key, (0, 0.0))[1] - now for key in keys), default=0.0)
            if wait > 0:
                raise TooMany(wait)
            for key in keys:
                count = self.failures.pop(key, (0, 0.0))[0] + 1
                pause = min(self.longest, 2.0 ** (count - self.free)) if count >= self.free else 0.0
                self.failures[key] = (count, now + pause)
            while len(self.failures) > self.most:
                self.failures.pop(next(iter(self.failures)))

    def succeeded(self, keys: tuple[str, ...]) -> None:
        with self.lock:
            for key in keys:
                self.failures.pop(key, None)


@cache
def hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def nobody() -> str:
    """What is compared for a name that is not there, so that both answers take as long."""
    return hasher().hash("nobody has this password")


@contextmanager
def in_turn() -> Iterator[None]:
    if not line.acquire(blocking=False):
        raise TooMany(2.0, "too many want to log in at once")
    try:
        with hashing:
            yield
    finally:
        line.release()


def account_name(text: str) -> str:
    name = fields.plain_text(text.strip(), field="name", limit=32)
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    if not name or not set(name) <= allowed or name[0] in ".-":
        raise InvalidField("name", text, "use small letters, digits, dots, hyphens and underscores, such as ada")
    return name


def password_hash(text: str) -> str:
    if not SHORTEST_PASSWORD <= len(text) <= LONGEST_PASSWORD:
        # The password itself is not repeated.
        raise InvalidInput(f"the password has {len(text)} characters; use {SHORTEST_PASSWORD} to {LONGEST_PASSWORD}")
    with in_turn():
        return hasher().hash(text)


def matches(stored: str | None, password: str) -> bool:
    from argon2.exceptions import VerificationError

    if not 0 < len(password) <= LONGEST_PASSWORD:
        return False
    with in_turn():
        try:
            return hasher().verify(stored or nobody(), password) and stored is not None
        except VerificationError:
            return False


def log_in(context: Context, brake: Brake, name: str, password: str, code: str, address: str) -> Account:
    keys = (f"name {name[:64]}", f"address {address}")
    brake.attempt(keys, time.monotonic())
    account = context.inventory.accounts.find(name) if 0 < len(name) <= 64 else None
    good = matches(account.password if account else None, password)
    if not good and (account is None or account.password is None):
        account, good = from_directory(context, account, name, password)
    if account is None or not good or account.disabled is not None or not code_fits(context, account, code):
        raise Refused("that name, password and code do not fit together")
    brake.succeeded(keys)
    return account


def from_directory(context: Context, account: Account | None, name: str, password: str) -> tuple[Account | None, bool]:
    """Somebody of a group that site.yaml lets in, by the password that they have on the nodes."""
    wanted = context.site.web.groups
    if not wanted or not 0 < len(password) <= LONGEST_PASSWORD:
        return account, False
    try:
        account_name(name)
        with people.directory(context) as found:
            role = role_in(found, wanted, name)
            if role is None or not found.password_fits(name, password):
                return account, False
    except HeadnodeError as error:
        # Whoever has a password of their own here comes in all the same.
        logger("headnode.web").warning("the directory cannot be asked", reason=error.message)
        return account, False
    accounts = context.inventory.accounts
    if account is None:
        return accounts.add(name, role, None), True
    if account.role is not role:
        accounts.change(account, role=role.value)
    return accounts.find(name), True


# Second factor


def code_fits(context: Context, account: Account, code: str) -> bool:
    if account.sealed_totp is None:
        return True
    step = totp_step(vault.unseal(account.sealed_totp, context.paths.secret_key), code.strip().replace(" ", ""))
    return step is not None and context.inventory.accounts.use_totp_step(account, step)


def totp_step(secret: str, code: str) -> int | None:
    """The time step a code belongs to: now, or one to either side for clocks that are a little off."""
    import pyotp

    if not (len(code) == 6 and code.isascii() and code.isdecimal()):
        return None
    now = int(time.time()) // TOTP_SECONDS
    generator = pyotp.TOTP(secret, interval=TOTP_SECONDS)
    return next((step for step in (now, now - 1, now + 1) if generator.at(step * TOTP_SECONDS) == code), None)


def new_totp_secret() -> str:
    import pyotp

    return pyotp.random_base32()


def totp_address(context: Context, account: Account, secret: str) -> str:
    """What an authenticator app is given."""
    import pyotp

    issuer = f"Headnode {context.site.cluster}"
    return pyotp.TOTP(secret, interval=TOTP_SECONDS).provisioning_uri(account.name, issuer_name=issuer)


def set_totp(context: Context, account: Account, secret: str, code: str) -> None:
    step = totp_step(secret, code)
    if step is None:
        raise InvalidInput("that code does not belong to this secret; look at the app and at its clock")
    sealed = vault.seal(secret, context.paths.secret_key)
    context.inventory.accounts.change(account, sealed_totp=sealed, totp_step=step)


def remove_totp(context: Context, account: Account) -> None:
    context.inventory.accounts.change(account, sealed_totp=None, totp_step=None)


# Accounts


def invite(context: Context, name: str | None, role: Role, lasting: timedelta = INVITED_FOR) -> str:
    """The secret part of a link with which somebody chooses a password."""
    chosen = account_name(name) if name is not None else None
    return context.inventory.accounts.invite(Invitation(role, datetime.now(UTC) + lasting, chosen))


def accept(context: Context, token: str, name: str, password: str) -> str:
    """Take up an invitation; returns the account's name."""
    found = context.inventory.accounts.invitation(token)
    if found is None:
        raise NotFound("this link was used already, or is too old", hint="'headnode account invite' makes a new one")
    chosen = found.name or account_name(name)
    if found.name is None and context.inventory.accounts.find(chosen) is not None:
        raise InvalidField("name", chosen, "there is such an account already; choose another name")
    if not context.inventory.accounts.accept(token, chosen, password_hash(password)):
        raise NotFound("this link was used already, or is too old")
    return chosen


def first_link(context: Context) -> str | None:
    """While nobody can come in: the path of a link to create the first admin, also written to a file for root."""
    from headnode.files import write_whole

    note = context.paths.runtime / "first-admin"
    if context.inventory.accounts.admins():
        note.unlink(missing_ok=True)
        return None
    path = f"/join/{invite(context, None, Role.ADMIN)}"
    context.paths.runtime.mkdir(parents=True, exist_ok=True)
    write_whole(note, f"{address(context)}{path}\n".encode(), 0o600)
    return path


def address(context: Context) -> str:
    """Where the pages are, as a browser is told."""
    web = context.site.web
    return f"{'https' if web.encrypted else 'http'}://{web.listen}"


def change_account(context: Context, name: str, *, role: Role | None = None, enabled: bool | None = None) -> Account:
    accounts = context.inventory.accounts
    found = accounts.find(name)
    if found is None:
        raise NotFound(f"there is no account '{name}'")
    loses = found.role is Role.ADMIN and found.disabled is None and (role not in (None, Role.ADMIN) or enabled is False)
    if loses and accounts.admins() == 1:
        raise InvalidInput(f"{name} is the only admin; nothing was changed", hint="make somebody else an admin first")
    if role is not None and role is not found.role:
        accounts.change(found, role=role.value)
    if enabled is not None and enabled is (found.disabled is not None):
        accounts.change(found, disabled=None if enabled else datetime.now(UTC))
    return accounts.find(name) or found


def change_password(context: Context, account: Account, old: str, new: str) -> None:
    if not matches(account.password, old):
        raise InvalidInput("the old password is not right; nothing was changed")
    context.inventory.accounts.change(account, password=password_hash(new))


def issue_token(context: Context, account: Account, label: str, scope: Role, days: int) -> str:
    """A token for programs; it never may more than its owner, whatever its scope says."""
    named = fields.plain_text(label.strip(), field="label", limit=64)
    if not named:
        raise InvalidField("label", label, "say what it is for, such as backup-script")
    if not 1 <= days <= TOKENS_LAST.days:
        raise InvalidField("days", days, f"use 1 to {TOKENS_LAST.days}")
    if not account.role.may(scope):
        raise refused_scope(scope, account.role)
    return context.inventory.accounts.issue_token(account, named, scope, datetime.now(UTC) + timedelta(days=days))


def refused_scope(scope: Role, role: Role) -> InvalidField:
    return InvalidField("scope", scope.value, f"you are {role} here; use that or less")
