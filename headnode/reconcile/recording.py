"""Following the logs of dnsmasq and nginx: what they say of a node becomes events of that node."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from headnode.reconcile.reloading import send
from headnode.tail import Position, Tail
from headnode.workflows import record
from headnode.workflows.context import Context

LOG_LIMIT = 64 * 1024 * 1024
EVERY = 0.3
Parse = Callable[[str, datetime], record.Observation | None]
# Log → how to read it; nothing is a log that is only kept small.
LOGS: dict[str, Parse | None] = {
    "dnsmasq.log": record.from_dnsmasq,
    "dnsmasq-management.log": record.from_management,
    "nginx-access.log": record.from_nginx,
    "nginx-error.log": None,
    "dnsmasq-names.log": None,
}


class Recorder:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.limiter = record.Limiter()
        self.owners = record.Owners({}, {})
        self.owners_revision = -1
        self.tails: dict[str, tuple[Tail, Parse]] = {}

    def run(self, stop: threading.Event) -> None:
        self.open()
        while not stop.wait(EVERY):
            self.step()
            self.rotate()

    def open(self) -> None:
        """Begin where the database says we are: also after a fault, when lines were read but not recorded."""
        for tail, _ in self.tails.values():
            tail.close()
        self.tails = {
            name: (
                Tail(self.context.paths.logs / name, Position.parse(self.context.inventory.fact(f"tail:{name}"))),
                parse,
            )
            for name, parse in LOGS.items()
            if parse is not None
        }

    def step(self) -> None:
        now = datetime.now(UTC)
        observed: list[record.Observation] = []
        moved: list[str] = []
        for name, (tail, parse) in self.tails.items():
            lines = tail.lines()
            if lines:
                moved.append(name)
            observed += [seen for line in lines if (seen := parse(line, now))]
        if not moved:
            return
        self.refresh_owners()
        happened = list(record.events(sorted(observed, key=lambda seen: seen.at), self.owners, self.limiter))
        # Events and positions in one transaction: whoever dies here, no line is lost and none is told twice.
        with self.context.inventory.change("boot plane", "record") as change:
            change.record_all(happened)
            for name in moved:
                change.set_fact(f"tail:{name}", str(self.tails[name][0].position))

    def refresh_owners(self) -> None:
        newest = self.context.inventory.newest()
        if newest != self.owners_revision:
            self.owners = record.Owners(*self.context.inventory.owners())
            self.owners_revision = newest

    def rotate(self) -> None:
        for name in LOGS:
            path = self.context.paths.logs / name
            with suppress(OSError):
                if path.stat().st_size > LOG_LIMIT:
                    begin_anew(path)
                    self.tell_writer(name)

    def tell_writer(self, name: str) -> None:
        runtime = self.context.paths.runtime
        if name.startswith("nginx"):
            send(runtime / "nginx/nginx.pid", "nginx", signal.SIGUSR1)
        else:
            part = name.removesuffix(".log").partition("-")[2] or "provision"
            send(runtime / "dnsmasq" / f"{part}.pid", "dnsmasq", signal.SIGUSR2)


def begin_anew(path: Path) -> None:
    """The old log is kept once. dnsmasq is not root when it opens the new one, so that has to be there and its own."""
    had = path.stat()
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb"):
        os.chown(fresh, had.st_uid, had.st_gid)
        fresh.chmod(had.st_mode & 0o777)
    path.replace(path.with_name(path.name + ".1"))
    fresh.replace(path)
