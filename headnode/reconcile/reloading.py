"""Telling services about new files, at most once a second however many publishes there are."""

import json
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headnode.log import logger
from headnode.paths import Paths
from headnode.services import pid_in, program_of
from headnode.site import Site

# A service that is just being started again has no process to tell for a moment.
PATIENCE = 2.0
# More addresses than this are given back by a restart, which forgets all leases; every node has its own address anyway.
MOST_RELEASES = 500
PARTS = ("provision", "management", "names")
# These read their configuration only when they start; whoever supervises them starts them again.
RESTARTED = (
    ("slapd/slapd.conf", "slapd/slapd.pid", "slapd"),
    ("chrony/chrony.conf", "chrony/chronyd.pid", "chronyd"),
    ("ganesha/ganesha.conf", "ganesha/ganesha.pid", "ganesha.nfsd"),
    ("apt-cacher-ng/acng.conf", "packages/apt-cacher-ng.pid", "apt-cacher-ng"),
)
# The longest question anybody asks; control.py shortens long lists.
LONGEST_LINE = 1 << 20


@dataclass
class Reloader:
    paths: Paths
    site: Site
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
                try:
                    self.reload(touched)
                except BaseException:
                    # A full disk, say: nothing may be forgotten, it is tried again.
                    self.request(touched)
                    raise
                self.reloads += 1
                stop.wait(self.pause)

    def reload(self, touched: set[str]) -> None:
        from pxe import dnsmasq

        entries = "everything" in touched or any(is_entry(path) for path in touched)
        gone = dnsmasq.assemble(self.paths) if entries else {}
        for part in PARTS:
            pid_file = self.paths.runtime / "dnsmasq" / f"{part}.pid"
            outdated = newer(self.paths.published / f"dnsmasq/{part}.conf", pid_file)
            if outdated or len(gone.get(part, ())) > MOST_RELEASES:
                # It reads its main configuration only when it starts; whoever supervises it starts it again.
                send(pid_file, "dnsmasq", signal.SIGTERM)
            elif entries and (self.paths.published / f"dnsmasq/{part}.conf").exists():
                send(pid_file, "dnsmasq", signal.SIGHUP)
                if part in gone:
                    dnsmasq.release(self.site.networks[part], gone[part])
        for config, process, program in RESTARTED:
            if newer(self.paths.published / config, self.paths.runtime / process):
                send(self.paths.runtime / process, program, signal.SIGTERM)
        if touched & {"everything", "nginx/nginx.conf"}:
            send(self.paths.runtime / "nginx/nginx.pid", "nginx", signal.SIGHUP)


def newer(config: Path, pid_file: Path) -> bool:
    """Whether a configuration came after the process that should have read it, whoever was told of it and died."""
    try:
        return config.stat().st_ctime > pid_file.stat().st_mtime
    except OSError:
        return False


def is_entry(path: str) -> bool:
    """What dnsmasq reads again when it is told to."""
    return path.startswith("dnsmasq/") and not path.endswith(".conf")


def send(pid_file: Path, program: str, number: signal.Signals, patience: float = PATIENCE) -> bool:
    """Signal a service by its pid file, if that process really is it."""
    deadline = time.monotonic() + patience
    while True:
        pid = pid_in(pid_file)
        if pid and program_of(pid_file) == program:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                logger("headnode.reconcile").info("signalled", program=program, pid=pid, signal=number.name)
                return True
        if time.monotonic() > deadline:
            logger("headnode.reconcile").warning("nobody to signal", program=program, pid_file=str(pid_file))
            return False
        time.sleep(0.05)


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
                with connection.makefile("rb") as question:
                    answer = self.answer(question.readline(LONGEST_LINE))
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def answer(self, line: bytes) -> dict[str, Any]:
        try:
            question = json.loads(line or b"{}")
            touched = {str(path) for path in question.get("touched", [])}
        except (ValueError, AttributeError, TypeError, RecursionError):
            return {"error": "that is not a question"}
        if touched:
            self.reloader.request(touched)
        return {"ok": True, "pid": os.getpid(), "reloads": self.reloader.reloads}
