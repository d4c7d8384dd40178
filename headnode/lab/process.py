"""Long-running programs of a lab: started in a namespace, logged to a file, stopped by process id."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from headnode.errors import HeadnodeError, ProgramMissing
from headnode.lab.net import Namespace
from headnode.run import find, run, spawn

POLL = 0.02
TCP_LISTENING = "0A"
# In the environment of all that a lab starts, and so of what they start in turn: whose it is, also after a crash.
MARK = "HEADNODE_LAB"
BOOT = Path("/proc/sys/kernel/random/boot_id")


class Process:
    """A program we started, leading a session of its own; its children are stopped with it."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        namespace: Namespace,
        log: Path,
        record: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if find(str(argv[0])) is None:
            raise ProgramMissing(str(argv[0]))
        self.name = name
        self.log = log
        self._namespace = namespace
        self._record = record
        with log.open("ab") as out:
            self._popen = spawn(namespace.argv(argv), stdout=out, stderr=out, env=env)
        self.pid = self._popen.pid
        write_record(record, self.pid, log)

    @property
    def alive(self) -> bool:
        """Whether it still runs. An ended one is not reaped here, so that its id cannot become another's."""
        if self._popen.returncode is not None:
            return False
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def stop(self, grace: float = 5.0) -> None:
        """TERM, then KILL after the grace time; also whatever it started and left behind."""
        if self.alive:
            self.signal(signal.SIGTERM)
            wait_for(lambda: not self.alive, grace)
        self.kill()

    def kill(self) -> None:
        """End it without a chance to say goodbye, and its whole process group."""
        if self._popen.returncode is None:
            self.signal(signal.SIGKILL)
            self._popen.wait()
        self._record.unlink(missing_ok=True)

    def signal(self, number: signal.Signals) -> None:
        # Until it is reaped in kill(), the group's id is certainly ours.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait_until(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait for a sign of life; a program that ends meanwhile is reported with its own last words."""
        if wait_for(lambda: ready() or not self.alive, timeout) and self.alive:
            return
        problem = f"did not {what} within {timeout:g} seconds" if self.alive else f"ended before it did {what}"
        raise HeadnodeError(f"{self.name} {problem}: {self.last_words() or 'it said nothing'}")

    def wait_listening(self, protocol: str, port: int, timeout: float = 10.0) -> None:
        def ready() -> bool:
            # Just after its start it still is in the host's namespace, where the port may be open too.
            return self._namespace.holds(self.pid) and listens(self.pid, protocol, port)

        self.wait_until(ready, timeout, f"listen on {protocol} port {port}")

    def last_words(self, limit: int = 1000) -> str:
        return self.log.read_text(errors="replace")[-limit:].strip()


def wait_for(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def listens(pid: int, protocol: str, port: int) -> bool:
    """Whether anybody in the process's network namespace has this port open (tcp: listening)."""
    try:
        lines = Path(f"/proc/{pid}/net/{protocol}").read_text().splitlines()[1:]
    except OSError:
        return False
    sockets = (line.split() for line in lines)
    return any(
        int(words[1].rsplit(":", 1)[1], 16) == port and (protocol.startswith("udp") or words[3] == TCP_LISTENING)
        for words in sockets
    )


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: with its id, that names it for ever."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def write_record(path: Path, pid: int, log: Path) -> None:
    said = {"pid": pid, "started": started(pid), "boot": BOOT.read_text().strip(), "log": str(log)}
    path.write_text(json.dumps(said))


def recorded(path: Path) -> int | None:
    """The process that a record names, if it still is that one and has not ended."""
    said = _record(path)
    pid = int(said.get("pid", 0))
    same = said.get("boot") == BOOT.read_text().strip() and started(pid) == said.get("started")
    return pid if pid and same and (_stat(pid) or ["Z"])[0] != "Z" else None


def stop_recorded(records: Path, lab: str, in_namespaces: Sequence[str]) -> None:
    """Kill what a killed lab left running: recorded processes and, in its namespaces, what these had started."""
    paths = sorted(records.glob("*.json"))
    for path in paths:
        if (pid := recorded(path)) is not None:
            _kill_and_wait(pid)
    stop_inhabitants(lab, in_namespaces, {str(_record(path).get("log")) for path in paths})


def stop_inhabitants(lab: str, namespaces: Sequence[str], logs: Collection[str]) -> None:
    """Kill what a lab's processes had started and left behind in its namespaces; a person's shell there is not ours."""
    for pid in (pid for name in namespaces for pid in inhabitants(name)):
        # nginx, for one, writes its title over its environment; where its errors go it cannot hide.
        if f"{MARK}={lab}".encode() in _environment(pid) or _errors_go_to(pid) in logs:
            _kill_and_wait(pid)


def _record(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _errors_go_to(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/fd/2").readlink())
    except OSError:
        return ""


def inhabitants(namespace: str) -> list[int]:
    return [int(pid) for pid in run(["ip", "netns", "pids", namespace]).stdout.split()]


def _kill_and_wait(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: (_stat(pid) or ["Z"])[0] == "Z", timeout=5)


def _stat(pid: int) -> list[str] | None:
    """/proc/PID/stat from its third field (state) on; the second may itself hold spaces and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
