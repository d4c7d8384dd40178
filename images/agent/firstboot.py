#!/usr/bin/python3
"""Run by the installed system at its start: says to the head node how it is, once that can be heard.

It stands alone, with nothing but the standard library: the head node copies this file as it is to every node.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

EXPECTED = Path("/etc/headnode/report.json")
MOUNTS = Path("/proc/self/mounts")
PROC = Path("/proc")
PATIENCE = 600.0
# How long a clock may take to be set. A node that is still wrong then says so, and is not up.
CLOCK_PATIENCE = 120
MOUNT_PATIENCE = 60
CHRONYC = ("chronyc", "-n", "-c")


def check(name: str, ok: bool, message: str) -> dict[str, object]:
    return {"name": name, "ok": ok, "message": message}


def checks(expected: Mapping[str, object], hostname: str, mounts: str, tracking: str) -> list[dict[str, object]]:
    """What was asked for beside what is. Pure."""
    wanted, there = expected.get("mounts"), mounted(mounts)
    found = [check("hostname", hostname == expected.get("hostname"), f"it is {hostname}")]
    for path in wanted if isinstance(wanted, list) else []:
        found.append(check(f"mount {path}", path in there, "mounted" if path in there else "not mounted"))
    found.append(clock(tracking, expected.get("max_offset_ms")))
    return found


def clock(tracking: str, bound: object) -> dict[str, object]:
    """How far this clock is off, by the one line of `chronyc -c tracking`. Pure."""
    words = tracking.strip().split(",")
    try:
        source, stratum, offset, leap = words[1] or words[0], int(words[2]), float(words[4]) * 1000, words[13]
    except (IndexError, ValueError):
        return check("clock", False, "chrony does not say; is it installed, and does it run?")
    limit = bound if isinstance(bound, int | float) else 100
    near = f"{abs(offset):.3f} ms off, stratum {stratum}, from {source}"
    told = {"offset_ms": round(offset, 6), "stratum": stratum}
    if leap == "Not synchronised":
        return {**check("clock", False, f"not synchronised with anybody after {CLOCK_PATIENCE} seconds"), **told}
    if abs(offset) > limit:
        return {**check("clock", False, f"{near}; at most {limit} ms is allowed"), **told}
    return {**check("clock", True, near), **told}


def synchronised(expected: Mapping[str, object]) -> str:
    """Wait, within bounds, until the clock is right; what chrony says of it then."""
    bound = expected.get("max_offset_ms")
    seconds = (bound if isinstance(bound, int | float) else 100) / 1000
    deadline = time.monotonic() + CLOCK_PATIENCE
    # One try at a time: chrony may not have been started yet, and gives up at once then.
    while said([*CHRONYC, "waitsync", "1", f"{seconds:f}"]) is None and time.monotonic() < deadline:
        time.sleep(1.0)
    return said([*CHRONYC, "tracking"]) or ""


def said(argv: list[str]) -> str | None:
    """What a program answered; nothing when it failed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def mounted(text: str) -> set[str]:
    """Where file systems are, by /proc/self/mounts."""
    return {line.split()[1].replace("\\040", " ") for line in text.splitlines() if len(line.split()) > 1}


def settled(expected: Mapping[str, object]) -> str:
    """The mounts, once all that were asked for are there: those that come over the network take their time."""
    wanted = expected.get("mounts")
    deadline = time.monotonic() + MOUNT_PATIENCE
    while True:
        text = MOUNTS.read_text()
        if not isinstance(wanted, list) or set(wanted) <= mounted(text) or time.monotonic() > deadline:
            return text
        time.sleep(1.0)


def gpu_checks(wanted: object, proc: Path) -> list[dict[str, object]]:
    """Every GPU of the PCI bus is the driver's, which is of the branch that was installed; NVSwitches are run."""
    if not isinstance(wanted, dict) or not wanted:
        return []
    try:
        version = (proc / "driver/nvidia/version").read_text()
    except OSError:
        return [check("gpu driver", False, "the NVIDIA driver is not loaded")]
    release = next((word for word in version.split() if word.partition(".")[0].isdigit() and "." in word), "?")
    count = len(list((proc / "driver/nvidia/gpus").glob("*")))
    found = [
        check(
            "gpu driver", release.startswith(f"{wanted['branch']}."), f"release {release}, wanted {wanted['branch']}"
        ),
        check("gpus", count == wanted["count"], f"{count} of {wanted['count']}"),
    ]
    if wanted.get("fabric"):
        # It refuses to run beside a driver of another release, so that it runs says that they agree.
        running = any(named(path) == "nv-fabricmanager" for path in proc.glob("[0-9]*/comm"))
        found.append(check("fabric manager", running, "running" if running else "not running"))
    return found


def named(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def report(url: str, token: str, found: list[dict[str, object]]) -> str:
    request = urllib.request.Request(  # noqa: S310 - the address was written by the head node
        url,
        data=json.dumps({"checks": found}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - as above
        return str(json.load(answer).get("state"))


def main() -> int:
    expected = json.loads(EXPECTED.read_text())
    deadline = time.monotonic() + PATIENCE
    pause = 1.0
    while True:
        tracking, mounts = synchronised(expected), settled(expected)
        found = checks(expected, socket.gethostname().partition(".")[0], mounts, tracking)
        found += gpu_checks(expected.get("gpus"), PROC)
        try:
            state = report(expected["url"], expected["token"], found)
        except (OSError, ValueError) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code == 404
            if refused or time.monotonic() > deadline:
                sys.stderr.write(f"headnode-report: {error}\n")
                return 0 if refused else 1
            time.sleep(pause)
            pause = min(pause * 1.5, 15.0)
            continue
        sys.stderr.write(f"headnode-report: the head node says this node is {state}\n")
        return 0


if __name__ == "__main__":
    sys.exit(main())
