"""`headnode lab` as a person uses it; and whatever is done to it, `lab down` leaves the machine as it was before."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headnode.lab import net
from headnode.lab.lab import ROOT
from headnode.lab.process import MARK, inhabitants, recorded, started, wait_for
from headnode.lab.spec import HOME, Places
from headnode.run import run
from tests.support import HEADNODE

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("ip", "dnsmasq", "nginx", "ipmi_sim", "qemu-system-x86_64", "losetup"),
]
NAMES = (f"k{os.getpid():x}", f"l{os.getpid():x}")


def lab(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*HEADNODE, "lab", *words], capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture
def name() -> Iterator[str]:
    yield NAMES[0]
    for one in NAMES:
        lab("down", "--name", one)


def up(name: str, *more: str) -> None:
    lab("up", "--name", name, "--no-images", *more)


def door(name: str) -> str:
    """The address that a person is told."""

    def told() -> re.Match[str] | None:
        return re.search(r"http://127\.0\.0\.1:\d+/\S+", lab("status", "--name", name).stderr)

    assert wait_for(lambda: told() is not None, 20)
    found = told()
    assert found is not None
    return found[0]


@dataclass(frozen=True)
class Traces:
    """What a lab could leave on a machine. Others may be at work here too: what has its name is its own."""

    namespaces: frozenset[str]
    links: frozenset[str]
    processes: frozenset[tuple[int, int | None]]
    mounts: frozenset[str]
    loops: frozenset[str]
    files: frozenset[str]


def traces(*names: str) -> Traces:
    def ours(lines: Iterator[str] | list[str]) -> frozenset[str]:
        return frozenset(line for line in lines if any(name in line for name in names))

    files = [str(path) for top in ("/run", "/tmp", "/var/lib", "/var/tmp", "/etc") for path in walked(Path(top))]
    return Traces(
        frozenset(one for name in names for one in net.namespaces(name)),
        # The host has no links of any lab, whosever it is, so here all count.
        frozenset(line.split(": ")[1].split("@")[0] for line in run(["ip", "-o", "link"]).stdout.splitlines()),
        frozenset((pid, started(pid)) for pid in running_of(names)),
        ours(Path("/proc/mounts").read_text().splitlines()),
        ours(run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"]).stdout.splitlines()),
        ours(files),
    )


def walked(top: Path) -> Iterator[Path]:
    for directory, folders, names in os.walk(top, onerror=None):
        for one in (*folders, *names):
            yield Path(directory) / one


def running_of(names: tuple[str, ...]) -> set[int]:
    """By mark, by name in the command line, and by namespace."""
    found = {pid for name in names for one in net.namespaces(name) for pid in inhabitants(one)}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        marked = any(f"{MARK}={name}".encode() in environment for name in names)
        named = any(name.encode() in command for name in names) and int(process.name) != os.getpid()
        if marked or named:
            found.add(int(process.name))
    return found


def test_two_labs_side_by_side_and_nothing_left_of_either(name: str) -> None:
    second = NAMES[1]
    before = traces(*NAMES)
    up(name, "--nodes", "1")
    up(second, "--nodes", "2", "--uefi", "--memory", "1G", "--disks", "2")
    # The same addresses in both, and each head node knows only its own.
    rows = json.loads(lab("status", "--name", second, "-o", "json").stdout)
    assert [(row["name"], row["firmware"], row["power"]) for row in rows] == [
        ("gpu01", "uefi", "off"),
        ("gpu02", "uefi", "off"),
    ]
    enroll = ("headnode", "enroll", "gpu01", "--mac", rows[0]["mac"], "--bmc", rows[0]["bmc"], "--profile", "gpu")
    lab("shell", "--name", second, *enroll, "--yes")
    assert lab("shell", "--name", second, "headnode", "power", "on", "gpu01").stdout == "gpu01: on\n"
    assert json.loads(lab("status", "--name", second, "-o", "json").stdout)[0]["power"] == "on"
    assert json.loads(lab("status", "--name", name, "-o", "json").stdout)[0]["power"] == "off"
    assert "No nodes yet" in lab("shell", "--name", name, "headnode", "nodes").stderr
    assert wait_for(lambda: lab("console", "--name", second, "gpu01", "--all").stdout != "", 60)
    # Each has its people's door on a port of its own here on the host, and its own first admin.
    doors = {one: door(one) for one in NAMES}
    assert len(set(doors.values())) == 2
    for page in doors.values():
        with urllib.request.urlopen(page) as answer:
            assert answer.status == 200
    # Up again changes nothing; other machines are refused.
    up(second, "--nodes", "2", "--uefi", "--memory", "1G", "--disks", "2")
    assert json.loads(lab("status", "--name", second, "-o", "json").stdout)[0]["power"] == "on"
    assert lab("up", "--name", second, "--no-images", "--nodes", "5", check=False).returncode == 2
    assert traces(*NAMES).links == before.links
    lab("down", "--name", second)
    assert json.loads(lab("status", "--name", name, "-o", "json").stdout) != []
    lab("down", "--name", name)
    assert traces(*NAMES) == before
    assert "nothing was changed" in lab("down", "--name", name).stderr


def test_a_killed_lab_goes_on_where_it_was(name: str) -> None:
    up(name, "--nodes", "1")
    shell = ("shell", "--name", name, "headnode")
    row = json.loads(lab("status", "--name", name, "-o", "json").stdout)[0]
    lab(*shell, "enroll", "gpu01", "--mac", row["mac"], "--bmc", row["bmc"], "--profile", "gpu", "--yes")
    lab(*shell, "power", "on", "gpu01")
    lab("fault", "--name", name, "gpu01", "slow-net")
    pid = recorded(Places.of(name).daemon)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    said = lab("status", "--name", name, check=False)
    assert said.returncode == 1
    assert "does not run" in said.stderr
    up(name, "--nodes", "1")
    row = json.loads(lab("status", "--name", name, "-o", "json").stdout)[0]
    # As after a blackout: the machine that was on is on again, and what was wrong with the wire is not.
    assert (row["power"], row["faults"]) == ("on", [])
    assert lab(*shell, "nodes", "-o", "name").stdout == "gpu01\n"
    lab("reset", "--name", name, "--yes")
    assert "No nodes yet" in lab(*shell, "nodes").stderr


@pytest.mark.parametrize("how", ["everything", "those who end others", "as by a restart"])
def test_after_kill_9_down_leaves_nothing(name: str, how: str) -> None:
    before = traces(name)
    up(name, "--nodes", "1")
    row = json.loads(lab("status", "--name", name, "-o", "json").stdout)[0]
    shell = ("shell", "--name", name, "headnode")
    lab(*shell, "enroll", "gpu01", "--mac", row["mac"], "--bmc", row["bmc"], "--profile", "gpu", "--yes")
    lab(*shell, "power", "on", "gpu01")
    lab("fault", "--name", name, "gpu01", "foreign-dhcp")
    daemon = recorded(Places.of(name).daemon)
    assert daemon is not None
    everything = running_of((name,)) | {daemon}
    # The services, an ipmi_sim, a QEMU, a rogue and more.
    assert len(everything) > 8
    for pid in {daemon, *head_node_of(everything)} if how == "those who end others" else everything:
        killed({pid})
    if how == "as by a restart":
        # Until a supervisor is dead itself, it starts anew what died before it.
        assert wait_for(lambda: not killed(running_of((name,))), 60)
        for namespace in net.namespaces(name):
            net.delete(namespace)
        shutil.rmtree(ROOT / name)
    lab("down", "--name", name)
    assert wait_for(lambda: traces(name) == before, 30), traces(name)


def killed(pids: set[int]) -> set[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def head_node_of(pids: set[int]) -> set[int]:
    """'headnode up' alone, whose services do not all notice."""
    return {pid for pid in pids if b"\0up\0" in Path(f"/proc/{pid}/cmdline").read_bytes()}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("up", "--name", "No Such"), "name is 'No Such'"),
        (("up", "--memory", "12"), "memory is '12'"),
        (("up", "--memory", "64M"), "at least 1G"),
        (("status", "--name", "nosuchlab"), "there is no lab 'nosuchlab'"),
        (("console", "--name", "nosuchlab", "gpu01"), "there is no lab 'nosuchlab'"),
        (("fault", "--name", "nosuchlab", "gpu01", "dead-bmc"), "there is no lab 'nosuchlab'"),
        (("shell", "--name", "nosuchlab", "true"), "there is no lab 'nosuchlab'"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(words: tuple[str, ...], expected: str) -> None:
    done = lab(*words, check=False)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert not (HOME / "nosuchlab").exists()
