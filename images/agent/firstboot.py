#!/usr/bin/python3
"""Run by the installed system at its start: says to the head node how it is, once that can be heard.

It stands alone, with nothing but the standard library: the head node copies this file as it is to every node.
"""

import json
import socket
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
# No clock that was ever set is before the day this program was written.
EARLIEST = 1_790_000_000


def check(name: str, ok: bool, message: str) -> dict[str, object]:
    return {"name": name, "ok": ok, "message": message}


def checks(expected: Mapping[str, object], hostname: str, mounts: str, now: float) -> list[dict[str, object]]:
    """What was asked for beside what is. Pure."""
    wanted = expected.get("mounts")
    mounted = {line.split()[1].replace("\\040", " ") for line in mounts.splitlines() if len(line.split()) > 1}
    found = [check("hostname", hostname == expected.get("hostname"), f"it is {hostname}")]
    for path in wanted if isinstance(wanted, list) else []:
        found.append(check(f"mount {path}", path in mounted, "mounted" if path in mounted else "not mounted"))
    found.append(check("clock", now > EARLIEST, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))))
    return found


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
        found = checks(expected, socket.gethostname().partition(".")[0], MOUNTS.read_text(), time.time())
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
