"""A lab: the namespaces, switches and programs of one test, removed together whatever happens."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from headnode.errors import HeadnodeError
from headnode.lab import net
from headnode.lab.net import Namespace, Switch
from headnode.lab.process import MARK, Process, stop_inhabitants, stop_recorded, wait_for

T = TypeVar("T")
ROOT = Path("/run/headnode-lab")
PATIENCE, GRACE = 0.5, 5.0


class LabRuns(HeadnodeError):
    """Somebody is using the lab of this name at this moment."""


class Lab:
    """What runs now in a lab. Everything made through it is unmade in reverse order at its end."""

    def __init__(self, name: str, directory: Path, logs: Path, stack: ExitStack) -> None:
        self.name = name
        self.directory = directory
        self.logs = logs
        self._stack = stack
        self._started = 0
        self._wiring: Namespace | None = None
        self.hosts: dict[str, Namespace] = {}

    def host(self, role: str) -> Namespace:
        """A host without any NIC; Switch.attach gives it one."""
        made = self._stack.enter_context(net.namespace(self.name, role))
        # A service that is slow to end outlives the supervisor that gave up on it, but not its namespace.
        self._stack.callback(
            lambda: stop_inhabitants(self.name, [made.name], [str(p) for p in self.logs.glob("*.log")])
        )
        self.hosts[role] = made
        return made

    def switch(self, name: str = "provision") -> Switch:
        """One broadcast domain; all are in one namespace, so that a machine can have NICs on several."""
        if self._wiring is None:
            self._wiring = self.host("wiring")
        return net.add_switch(self._wiring, name)

    def start(
        self,
        namespace: Namespace,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        grace: float = GRACE,
    ) -> Process:
        """Start a program in a namespace; it is stopped with the lab, if not before."""
        self._started += 1
        unique = f"{self._started:04d}-{name}"
        process = Process(
            name, argv, namespace=namespace, env={MARK: self.name, **(env or {})},
            log=self.logs / f"{unique}.log", record=self.directory / f"{unique}.json",
        )  # fmt: skip
        self._stack.callback(process.stop, grace)
        return process

    def enter(self, context: AbstractContextManager[T]) -> T:
        return self._stack.enter_context(context)

    def at_end(self, action: Callable[[], object]) -> None:
        self._stack.callback(action)


@contextmanager
def lab(name: str, *, logs: Path | None = None) -> Iterator[Lab]:
    """A lab with this name, of which there is one at a time; leftovers of a killed one are removed first.

    Its directory is removed at the end; logs that should outlive it go to `logs`.
    """
    with _claimed(name) as directory:
        _remove_leftovers(name, directory)
        with ExitStack() as stack:
            yield Lab(name, directory, logs or directory, stack)


def sweep(name: str) -> None:
    """Remove what a killed lab left behind. A lab that is alive is refused, never swept."""
    with _claimed(name) as directory:
        _remove_leftovers(name, directory)


def sweep_dead() -> list[str]:
    """Sweep every lab that nobody runs any more; returns their names."""
    names = {path.name for path in ROOT.glob("*")} | {name.split("-")[1] for name in net.namespaces()}
    swept = []
    for name in sorted(names):
        with contextlib.suppress(LabRuns):
            sweep(name)
            swept.append(name)
    return swept


@contextmanager
def _claimed(name: str) -> Iterator[Path]:
    """Hold the lab's directory under a lock that dies with this process, and remove it at the end."""
    directory, lock = _claim(name)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _claim(name: str) -> tuple[Path, int]:
    directory = ROOT / net.word(name, "lab")
    while True:
        # Readable by all: dnsmasq and nginx serve from here with fewer rights than ours.
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        # A sweep of all dead labs may hold it for a moment.
        if not wait_for(partial(_locked, lock), PATIENCE):
            os.close(lock)
            raise LabRuns(f"the lab '{name}' is running", hint="give this one another name")
        # Between opening and locking, the former owner may have removed it: then this lock guards nothing.
        if directory.exists() and os.path.samestat(directory.stat(), os.fstat(lock)):
            return directory, lock
        os.close(lock)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_leftovers(name: str, directory: Path) -> None:
    left = net.namespaces(name)
    stop_recorded(directory, name, left)
    for namespace in left:
        net.delete(namespace)
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
