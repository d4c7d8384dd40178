"""Run services in the foreground: start them in order, restart them with a growing pause, stop them cleanly."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from headnode import run
from headnode.errors import HeadnodeError
from headnode.log import logger
from headnode.services import Service

POLL = 0.1
START_TIMEOUT = 30.0
STOP_TIMEOUT = 8.0
# The first restart is at once: a service that was killed should be back before anyone notices.
PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
HEALTHY_AFTER = 30.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Child:
    service: Service
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    failures: int = 0
    next_start: float = 0.0


@dataclass
class Supervisor:
    services: Sequence[Service]
    # Called before every start of a service; `first` is false for a restart after a crash.
    prepare: Callable[[Service, bool], None]
    on_ready: Callable[[], None] = lambda: None
    stopping: bool = False
    children: list[Child] = field(default_factory=list)

    def run(self) -> int:
        """Until a signal says stop; returns the exit code."""
        previous = {number: signal.signal(number, self._stop) for number in STOP_SIGNALS}
        # What we and our services write is read by programs that are not root.
        os.umask(0o022)
        self.children = [Child(service) for service in self.services]
        try:
            for child in self.children:
                self._start(child, first=True)
                self._wait_ready(child)
                if self.stopping:
                    return 0
            self.on_ready()
            notify("READY=1")
            self._watch()
            return 0
        finally:
            notify("STOPPING=1")
            for child in reversed(self.children):
                stop(child)
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: object) -> None:
        self.stopping = True

    def _start(self, child: Child, *, first: bool) -> None:
        self.prepare(child.service, first)
        # Should this supervisor be killed, its services must not live on unsupervised.
        guard = ("setpriv", "--pdeathsig", "TERM", "--")
        child.process = run.spawn([*guard, *child.service.argv], env=child.service.environment, stderr=2, stdout=2)
        child.started = time.monotonic()
        logger("headnode.up").info("started", service=child.service.name, pid=child.process.pid)

    def _wait_ready(self, child: Child) -> None:
        while not child.service.ready():
            if self.stopping:
                return
            if child.process is None or child.process.poll() is not None:
                code = child.process.returncode if child.process else None
                raise HeadnodeError(
                    f"{child.service.name} ended while starting (exit code {code})", hint="its own words are above"
                )
            if time.monotonic() - child.started > START_TIMEOUT:
                raise HeadnodeError(f"{child.service.name} was not ready after {START_TIMEOUT:.0f} seconds")
            time.sleep(POLL / 2)

    def _watch(self) -> None:
        while not self.stopping:
            for child in self.children:
                if child.process is not None and child.process.poll() is not None:
                    self._ended(child)
                elif child.process is None and time.monotonic() >= child.next_start:
                    self._try_again(child)
                elif child.failures and time.monotonic() - child.started > HEALTHY_AFTER:
                    child.failures = 0
            time.sleep(POLL)

    def _ended(self, child: Child) -> None:
        assert child.process is not None  # noqa: S101 - for the type checker
        code, pid = child.process.returncode, child.process.pid
        # What it started may hold its ports: nginx's workers outlive a killed master.
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        child.process = None
        # A clean end after some work is somebody's wish for a restart, not a failure.
        wished = code == 0 and time.monotonic() - child.started > 1.0
        pause = 0.0 if wished else PAUSES[min(child.failures, len(PAUSES) - 1)]
        child.failures += 0 if wished else 1
        child.next_start = time.monotonic() + pause
        logger("headnode.up").warning("ended", service=child.service.name, code=code, again_in_seconds=pause)

    def _try_again(self, child: Child) -> None:
        try:
            self._start(child, first=False)
        except (HeadnodeError, OSError) as error:
            child.failures += 1
            child.next_start = time.monotonic() + PAUSES[min(child.failures, len(PAUSES) - 1)]
            logger("headnode.up").error("cannot start", service=child.service.name, reason=str(error))


def stop(child: Child) -> None:
    """Ask, wait, then insist; only ever a process that we started."""
    process = child.process
    if process is None or process.poll() is not None:
        return
    process.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(POLL / 4)
        if time.monotonic() > deadline:
            process.kill()
    # Also what it started and left behind; until it is reaped its group's number is certainly ours.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def notify(state: str) -> None:
    """Tell systemd, when it is listening (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection, suppress(OSError):
        connection.connect("\0" + address[1:] if address.startswith("@") else address)
        connection.sendall(state.encode())
