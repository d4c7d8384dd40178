"""headnode-reconcile: watches, records and keeps promises. All its state is in the database.

Killing it at any moment loses nothing: logs are read on from where the database says, an overdue discovery window is
closed at the next start, and services are told to reload once whenever it starts.
"""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headnode.errors import HeadnodeError
from headnode.log import configure, logger
from headnode.model import Severity, Sighting
from headnode.paths import Paths
from headnode.services import pid_in, program_of
from headnode.supervisor import notify
from headnode.tail import Position, Tail
from headnode.workflows import deploy, discovery, publishing, record
from headnode.workflows.context import Context

LOG_LIMIT = 64 * 1024 * 1024
SIGHTING_PAUSE = 5.0


@dataclass
class Reloader:
    """Tells services about new files, at most once a second however many publishes there are."""

    paths: Paths
    pause: float = 1.0
    touched: set[str] = field(default_factory=set)
    wake: threading.Condition = field(default_factory=threading.Condition)
    reloads: int = 0

    def request(self, touched: set[str]) -> None:
        with self.wake:
            self.touched |= touched
            self.wake.notify()

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self.wake:
                if not self.touched:
                    self.wake.wait(0.5)
                touched, self.touched = self.touched, set()
            if touched:
                self.reload(touched)
                self.reloads += 1
                stop.wait(self.pause)

    def reload(self, touched: set[str]) -> None:
        from pxe import dnsmasq

        entries = any(path.startswith("dnsmasq/") and not path.endswith(".conf") for path in touched)
        if entries or "everything" in touched:
            dnsmasq.assemble(self.paths)
        for network in ("provision", "management"):
            pid_file = self.paths.runtime / "dnsmasq" / f"{network}.pid"
            if f"dnsmasq/{network}.conf" in touched:
                # It reads its main configuration only when it starts; whoever supervises it starts it again.
                send(pid_file, "dnsmasq", signal.SIGTERM)
            elif entries or "everything" in touched:
                send(pid_file, "dnsmasq", signal.SIGHUP)
        if "nginx/nginx.conf" in touched:
            send(self.paths.runtime / "nginx/nginx.pid", "nginx", signal.SIGHUP)


def send(pid_file: Path, program: str, number: signal.Signals) -> None:
    """Signal a service by its pid file, if that process really is it."""
    pid = pid_in(pid_file)
    if pid and program_of(pid_file) == program:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            logger("headnode.reconcile").info("signalled", program=program, pid=pid, signal=number.name)


class Control:
    """Answers the control socket: 'this was published', and 'are you there?'."""

    def __init__(self, paths: Paths, reloader: Reloader) -> None:
        self.reloader = reloader
        paths.control_socket.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old = os.umask(0o077)
        try:
            self.socket.bind(str(paths.control_socket))
        finally:
            os.umask(old)
        self.socket.listen(64)
        self.socket.settimeout(0.5)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                connection, _ = self.socket.accept()
            except TimeoutError:
                continue
            with connection, suppress(OSError):
                connection.settimeout(2.0)
                connection.sendall(
                    json.dumps(self.answer(connection.makefile("rb").readline(4_000_000))).encode() + b"\n"
                )

    def answer(self, line: bytes) -> dict[str, Any]:
        try:
            question = json.loads(line or b"{}")
            touched = {str(path) for path in question.get("touched", [])}
        except (ValueError, AttributeError, TypeError):
            return {"error": "that is not a question"}
        if touched:
            self.reloader.request(touched)
        return {"ok": True, "pid": os.getpid(), "reloads": self.reloader.reloads}


class Recorder:
    """Follows the logs of dnsmasq and nginx."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.limiter = record.Limiter()
        self.owners = record.Owners({}, {})
        self.owners_revision = -1
        self.tails = {
            name: (Tail(context.paths.logs / name, Position.parse(context.inventory.fact(f"tail:{name}"))), parse)
            for name, parse in (("dnsmasq.log", record.from_dnsmasq), ("nginx-access.log", record.from_nginx))
        }

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(0.3):
            self.step()

    def step(self) -> None:
        now = datetime.now(UTC)
        observed: list[record.Observation] = []
        moved = False
        for tail, parse in self.tails.values():
            lines = tail.lines()
            moved = moved or bool(lines)
            observed += [seen for line in lines if (seen := parse(line, now))]
        if not moved:
            return
        newest = self.context.inventory.newest()
        if newest != self.owners_revision:
            self.owners = record.Owners(*self.context.inventory.owners())
            self.owners_revision = newest
        happened = list(record.events(sorted(observed, key=lambda seen: seen.at), self.owners, self.limiter))
        with self.context.inventory.change("boot plane", "record") as change:
            change.record_all(happened)
            for name, (tail, _) in self.tails.items():
                change.set_fact(f"tail:{name}", str(tail.position))
        self.rotate()

    def rotate(self) -> None:
        """Keep logs bounded: the old one is kept once, and its writer is asked to begin anew."""
        for name, (_, _) in self.tails.items():
            path = self.context.paths.logs / name
            with suppress(OSError):
                if path.stat().st_size > LOG_LIMIT:
                    path.replace(path.with_name(name + ".1"))
                    runtime = self.context.paths.runtime
                    if name == "dnsmasq.log":
                        send(runtime / "dnsmasq/provision.pid", "dnsmasq", signal.SIGUSR2)
                    else:
                        send(runtime / "nginx/nginx.pid", "nginx", signal.SIGUSR1)


class Watcher:
    """Listens on the provision interface for hardware that asks and is nobody's node."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.written: dict[str, float] = {}

    def run(self, stop: threading.Event) -> None:
        from pxe.dhcp import Op
        from pxe.wire import Wire

        with Wire(str(self.context.site.provision.interface), Op.REQUEST) as wire:
            while not stop.is_set():
                if heard := wire.receive(time.monotonic() + 0.5):
                    self.hear(heard[0])

    def hear(self, packet: Any) -> None:
        now = time.monotonic()
        if now - self.written.get(packet.mac, -SIGHTING_PAUSE) < SIGHTING_PAUSE:
            return
        if len(self.written) > 10_000:
            self.written.clear()
        self.written[packet.mac] = now
        if self.context.inventory.owner_of(packet.mac) is not None:
            return
        at = datetime.now(UTC)
        architecture = packet.architecture
        sighting = Sighting(
            packet.mac,
            at,
            at,
            getattr(architecture, "name", str(architecture)).lower() if architecture is not None else None,
            packet.client_id.hex() if packet.client_id else None,
        )
        with self.context.inventory.change("boot plane", "seen on the provision network") as change:
            change.record_seen([sighting])


def close_overdue_windows(context: Context, stop: threading.Event) -> None:
    while not stop.wait(1.0):
        window = discovery.recorded(context)
        if window is not None and window.until <= datetime.now(UTC):
            discovery.close(context, "its time was up")
            publishing.publish_changes(context)


def fail_overdue_work(context: Context, stop: threading.Event) -> None:
    while not stop.wait(2.0):
        deploy.expire_overdue(context)


def look_for_foreign_dhcp(context: Context, stop: threading.Event) -> None:
    """While serving, a foreign server is an event and a loud status; stopping ours would help nobody."""
    from pxe.probe import probe

    net = context.site.provision
    while not stop.wait(context.site.boot.probe_seconds):
        offers = sorted(str(offer) for offer in probe(str(net.interface), 3.0, ours=[str(net.head)]))
        known = context.inventory.fact("foreign_dhcp")
        if "\n".join(offers) == known:
            continue
        with context.inventory.change("boot plane", "regular look for other DHCP servers") as change:
            change.set_fact("foreign_dhcp", "\n".join(offers))
            for offer in offers:
                message = f"a foreign DHCP server answers on {net.interface}: {offer}"
                change.record("dhcp.foreign", message, severity=Severity.ERROR)
                logger("headnode.reconcile").error("foreign DHCP server", offer=offer)
            if not offers:
                change.record("dhcp.foreign", f"no foreign DHCP server answers on {net.interface} any more")


def persistently(name: str, work: Callable[[threading.Event], None], stop: threading.Event) -> None:
    """A fault in one duty is logged and the duty taken up again; it never takes the others with it."""
    while not stop.is_set():
        try:
            work(stop)
        except HeadnodeError as error:
            logger("headnode.reconcile").error("stumbled", duty=name, reason=error.message)
        except Exception as error:  # noqa: BLE001 - duties must survive what nobody thought of
            logger("headnode.reconcile").error("stumbled", duty=name, reason=repr(error))
        stop.wait(2.0)


def main() -> None:
    configure()
    context = Context(Paths.from_environment(), actor="reconcile", cause="headnode-reconcile")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    reloader = Reloader(context.paths)
    control = Control(context.paths, reloader)
    # Whatever was published while nobody listened takes effect now.
    reloader.request({"everything"})
    recorder, watcher = Recorder(context), Watcher(context)
    duties: dict[str, Callable[[threading.Event], None]] = {
        "control": control.run,
        "reload": reloader.run,
        "record": recorder.run,
        "watch": watcher.run,
        "discovery": lambda stop: close_overdue_windows(context, stop),
        "deadlines": lambda stop: fail_overdue_work(context, stop),
        "foreign-dhcp": lambda stop: look_for_foreign_dhcp(context, stop),
    }
    threads = [
        threading.Thread(target=persistently, args=(name, work, stop), name=name, daemon=True)
        for name, work in duties.items()
    ]
    for thread in threads:
        thread.start()
    notify("READY=1")
    while not stop.wait(1.0):
        pass
    for thread in threads:
        thread.join(3.0)
    context.paths.control_socket.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
