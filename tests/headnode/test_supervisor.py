"""The supervisor with small programs of our own."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.services import Service
from headnode.supervisor import Supervisor

pytestmark = pytest.mark.program("setpriv", "sh")


def service(name: str, script: str, ready: Callable[[], bool] = lambda: True) -> Service:
    return Service(name, name, ("sh", "-c", script), ready)


def stop_after(supervisor: Supervisor, condition: Callable[[], bool], timeout: float = 20) -> None:
    def wait() -> None:
        deadline = time.monotonic() + timeout
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    supervisor.on_ready = lambda: threading.Thread(target=wait, daemon=True).start()


def test_what_ends_is_started_again_and_all_are_stopped(tmp_path: Path) -> None:
    runs, stopped = tmp_path / "runs", tmp_path / "stopped"
    flaky = service("flaky", f"echo x >> {runs}; exit 3")
    steady = service("steady", f"trap 'echo x > {stopped}; exit 0' TERM; while :; do sleep 0.05; done")
    prepared: list[tuple[str, bool]] = []
    supervisor = Supervisor([steady, flaky], prepare=lambda one, first: prepared.append((one.name, first)))
    stop_after(supervisor, lambda: runs.exists() and len(runs.read_text()) >= 6)
    assert supervisor.run() == 0
    assert stopped.exists()
    assert prepared[:3] == [("steady", True), ("flaky", True), ("flaky", False)]
    assert ("steady", False) not in prepared


def test_one_that_ends_while_starting_stops_the_others(tmp_path: Path) -> None:
    stopped = tmp_path / "stopped"
    on = tmp_path / "on"
    script = f"trap 'echo x > {stopped}; exit 0' TERM; touch {on}; while :; do sleep 0.05; done"
    steady = service("steady", script, on.exists)
    broken = service("broken", "exit 7", ready=lambda: False)
    with pytest.raises(HeadnodeError, match=r"broken ended while starting \(exit code 7\)"):
        Supervisor([steady, broken], prepare=lambda one, first: None).run()
    assert stopped.exists()


def test_a_full_disk_at_a_restart_does_not_end_the_others(tmp_path: Path) -> None:
    tries: list[bool] = []

    def prepare(one: Service, first: bool) -> None:
        tries.append(first)
        if len(tries) == 2:
            raise OSError(28, "No space left on device")

    supervisor = Supervisor([service("flaky", "exit 1")], prepare=prepare)
    stop_after(supervisor, lambda: len(tries) >= 3)
    assert supervisor.run() == 0
    assert tries[:3] == [True, False, False]
