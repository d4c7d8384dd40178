"""One-time tickets for consoles in the browser: short-lived, and worth nothing once used."""

import secrets
from dataclasses import dataclass, field

LIFETIME = 30.0
MOST = 10_000


@dataclass(frozen=True)
class Ticket:
    node: str
    who: str
    write: bool = False
    share: bool = False


@dataclass
class Tickets:
    """In memory only: a restart makes all of them void, which is right for something that lives half a minute."""

    issued: dict[str, tuple[float, Ticket]] = field(default_factory=dict)

    def issue(self, ticket: Ticket, now: float) -> str:
        self.issued = {code: entry for code, entry in self.issued.items() if entry[0] > now}
        if len(self.issued) >= MOST:
            self.issued.clear()  # somebody asks for tickets and never uses them; nobody else should pay in memory
        code = secrets.token_urlsafe(32)
        self.issued[code] = (now + LIFETIME, ticket)
        return code

    def redeem(self, code: str, node: str, now: float) -> Ticket | None:
        until, ticket = self.issued.pop(code, (0.0, Ticket("", "")))
        return ticket if now < until and ticket.node == node else None
