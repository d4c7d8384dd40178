"""Bringing labs up and down from outside, and giving orders to the one that runs."""

import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from headnode import run
from headnode.errors import HeadnodeError, InvalidInput, NotFound
from headnode.lab import net, stock
from headnode.lab.daemon import STAGE
from headnode.lab.lab import LabRuns, sweep
from headnode.lab.process import recorded, wait_for, write_record
from headnode.lab.spec import HOME, NodeSpec, Places, Spec, names
from headnode.lab.world import Progress, command, is_root, prepare
from headnode.run import Completed

UP_WITHIN, DOWN_WITHIN = 300.0, 120.0
LOOK_EVERY = 0.2


def ask(places: Places, order: str, timeout: float = 60.0, **more: Any) -> dict[str, Any] | None:
    """The running lab's answer, or nothing when it does not run."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(places.socket))
            connection.sendall(json.dumps({"order": order, **more}).encode() + b"\n")
            with connection.makefile("rb") as answer:
                said = dict(json.loads(answer.readline() or b"{}"))
        except (FileNotFoundError, ConnectionError):
            return None
        except (OSError, ValueError) as error:
            raise HeadnodeError(f"the lab at {places.socket} did not answer: {error}") from error
    if "refused" in said:
        kind = InvalidInput if said.get("code") == 2 else HeadnodeError
        raise kind(str(said["refused"]), hint=str(said.get("hint", "")))
    return said


def order(name: str, what: str, **more: Any) -> dict[str, Any]:
    """The same of a lab that must run."""
    places = existing(name)
    answer = ask(places, what, **more)
    if answer is None:
        raise HeadnodeError(f"the lab '{name}' does not run", hint=f"'headnode lab up{naming(name)}' starts it again")
    return answer


def existing(name: str) -> Places:
    places = Places.of(name)
    if not places.spec.exists():
        known = ", ".join(names())
        raise NotFound(f"there is no lab '{name}'" + (f"; there is {known}" if known else ""), hint="headnode lab up")
    return places


def headnode(name: str, *words: str) -> Completed:
    """A command of the product, run on the head node of a lab."""
    within = net.Namespace(net.namespace_name(name, "head"))
    return within.run(command(existing(name), *words), check=False, timeout=300)


def known_node(name: str, node: str) -> NodeSpec:
    spec = Spec.read(existing(name).spec)
    found = {one.name: one for one in spec.nodes}
    if node not in found:
        raise NotFound(f"there is no node '{node}' in the lab '{name}'; it has {', '.join(found)}")
    return found[node]


def naming(name: str) -> str:
    return "" if name == Spec.name else f" --name {name}"


def up(spec: Spec, progress: Progress) -> dict[str, Any]:
    """Start a lab, or what is missing of it; a lab that exists keeps the machines that it was made with."""
    is_root()
    places = Places.of(spec.name)
    if places.spec.exists():
        before = Spec.read(places.spec)
        if (before.firmware, before.memory_mib, before.disks) != (spec.firmware, spec.memory_mib, spec.disks):
            raise InvalidInput(
                f"the lab '{spec.name}' exists with other machines; nothing was changed",
                hint=f"'headnode lab down{naming(spec.name)}' first, or another --name",
            )
    with one_at_a_time(places):
        if ask(places, "status") is None:
            prepare(places, spec)
            wait_ready(places, start(places), progress)
        if spec.images and not (places.head.state / "images").exists():
            # It was brought up without.
            stock.install(places.head)
    return order(spec.name, "status")


@contextmanager
def one_at_a_time(places: Places) -> Iterator[None]:
    """Of two that bring a lab up at the same moment, the second finds it running."""
    places.home.mkdir(parents=True, exist_ok=True)
    lock = os.open(places.home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def start(places: Places) -> int:
    """The lab's process, which stays when we are gone; returns where in its log this start begins."""
    with places.daemon_log.open("ab") as log:
        begun = log.tell()
        # One that an interrupted command had started is still at it.
        if recorded(places.daemon) is None:
            argv = [sys.executable, "-u", "-m", "headnode.lab.daemon", places.home.name]
            write_record(places.daemon, run.spawn(argv, stdout=log, stderr=log).pid, places.daemon_log)
    return begun


def wait_ready(places: Places, begun: int, progress: Progress) -> None:
    """Pass on its stages until it is ready."""
    read = begun
    deadline = time.monotonic() + UP_WITHIN
    while time.monotonic() < deadline:
        ended = recorded(places.daemon) is None
        read = pass_on(places, read, progress)
        if ended:
            said = places.daemon_log.read_bytes()[begun:].decode(errors="replace")
            words = [line for line in said.splitlines() if not line.startswith(STAGE)]
            raise HeadnodeError("the lab could not be started: " + ("\n".join(words[-8:]) or "it said nothing"))
        if (answer := ask(places, "status")) is not None and answer["phase"] == "ready":
            return
        time.sleep(LOOK_EVERY)
    raise HeadnodeError(f"the lab was not ready after {UP_WITHIN:.0f} seconds", hint=f"see {places.daemon_log}")


def pass_on(places: Places, read: int, progress: Progress) -> int:
    with places.daemon_log.open("rb") as log:
        log.seek(read)
        said = log.read()
    # A line may be there only in part.
    whole = said[: said.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        if line.startswith(STAGE):
            progress(line.removeprefix(STAGE))
    return read + len(whole)


def down(name: str) -> bool:
    """End a lab and remove all of it, also when its process was killed or the machine restarted; false if none was."""
    is_root()
    places = Places.of(name)
    there = places.home.exists() or places.runtime.exists() or bool(net.namespaces(name))
    stop(places)
    try:
        sweep(name)
    except LabRuns:
        # A lab of this name that is not ours to end: one of the tests', under the same name.
        raise HeadnodeError(f"the lab '{name}' is held by another process", hint="end that one first") from None
    shutil.rmtree(places.home, ignore_errors=True)
    for parent in (HOME, places.runtime.parent):
        with suppress(OSError):
            parent.rmdir()
    return there


def stop(places: Places) -> None:
    """Ask; a lab that does not listen is ended by its number and, if it must be, without being asked."""
    pid = recorded(places.daemon)
    with suppress(HeadnodeError):
        if ask(places, "stop", timeout=5.0) is not None and is_over(places, DOWN_WITHIN):
            return
    for number in (signal.SIGTERM, signal.SIGKILL):
        if pid is None or recorded(places.daemon) != pid:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        is_over(places, 10.0)


def is_over(places: Places, patience: float) -> bool:
    return wait_for(lambda: recorded(places.daemon) is None, patience)
