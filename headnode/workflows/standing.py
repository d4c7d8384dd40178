"""Whether somebody of the directory may still come in: asked again while they are here, not only when they log in."""

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headnode.accounts import Account, Role
from headnode.directory.client import Directory
from headnode.errors import HeadnodeError
from headnode.log import logger
from headnode.workflows import people
from headnode.workflows.context import Context

# What the directory said counts for so many seconds; whoever is locked there is out after no more than that.
FRESH = 60.0
# While it cannot be asked, what it said last counts for so long: enough to start it again, too short to hide behind.
PATIENCE = 900.0


@dataclass
class Standing:
    """What the directory said of whom, and when. In memory only."""

    heard: dict[str, tuple[float, Role | None]] = field(default_factory=dict)
    # It did not answer: until then nobody waits for it again.
    silent_until: float = -math.inf
    lock: threading.Lock = field(default_factory=threading.Lock)

    def role(self, context: Context, account: Account) -> Role | None:
        """What somebody may now, and never more than their login gave them; None when they are shut out."""
        if account.password is not None:
            return account.role
        with self.lock:
            now = time.monotonic()
            if now - self.last(account.name)[0] >= FRESH and now >= self.silent_until:
                self.ask(context, account.name)
            at, role = self.last(account.name)
        if role is None or time.monotonic() - at > PATIENCE:
            return None
        return min(role, account.role, key=lambda one: one.rank)

    def last(self, name: str) -> tuple[float, Role | None]:
        return self.heard.get(name, (-math.inf, None))

    def ask(self, context: Context, name: str) -> None:
        groups = context.site.web.groups
        try:
            role = None
            if groups:
                with people.directory(context) as found:
                    role = role_in(found, groups, name)
        except HeadnodeError as error:
            logger("headnode.web").warning("the directory cannot be asked", reason=error.message)
            self.silent_until = time.monotonic() + FRESH
            return
        self.heard[name] = (time.monotonic(), role)

    def forget(self, name: str) -> None:
        """They have just shown their password to the directory, which may have unlocked them a moment ago."""
        with self.lock:
            self.heard.pop(name, None)


def role_in(found: Directory, groups: Mapping[str, str], name: str) -> Role | None:
    """The most that somebody's groups give them; None for who is locked, gone, or in no group that is let in."""
    person = next(found.people([name]), None)
    if person is None or person.locked:
        return None
    roles = [Role(groups[group]) for group in person.groups if group in groups]
    return max(roles, key=lambda one: one.rank, default=None)
