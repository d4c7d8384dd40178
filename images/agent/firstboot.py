#!/usr/bin/python3
"""Run by the installed system: says to the head node how it is, at its start and whenever that is asked for.

It stands alone, with nothing but the standard library: the head node copies this file as it is to every node.
"""

import json
import os
import random
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
PATIENCE = 600.0
CHECKS = Path("/usr/local/lib/headnode/nodecheck")
CHECK_PATIENCE = 600.0
LOOK_EVERY = 20.0
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


def more(expected: Mapping[str, object]) -> list[dict[str, object]]:
    """The checks of the package beside this program, in a process of their own, which may hang or die."""
    if not CHECKS.is_dir():
        return []
    burn_in = expected.get("burn_in")
    patience = CHECK_PATIENCE + (4 * burn_in if isinstance(burn_in, int) else 0)
    argv = [sys.executable, "-m", CHECKS.name]
    environment = {**os.environ, "PYTHONPATH": str(CHECKS.parent)}
    try:
        done = subprocess.run(argv, input=json.dumps(expected), capture_output=True, text=True, timeout=patience,
                              env=environment, check=False)  # fmt: skip
        found = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return [check("checks", False, f"the checks did not end well: {error}")]
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def wanted_now(expected: Mapping[str, object]) -> dict[str, object]:
    """What is expected of this node as of now; what was expected when it was installed when nobody says."""
    try:
        request = urllib.request.Request(  # noqa: S310 - the address was written by the head node
            str(expected["url"]).replace("/verify", "/expected"),
            headers={"Authorization": f"Bearer {expected['token']}"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - as above
            return {**expected, **dict(json.load(answer))}
    except (OSError, ValueError, TypeError):
        return dict(expected)


def asked(expected: Mapping[str, object]) -> str:
    """What the head node wants to know right now; nothing, usually. A file of a few bytes, served without a thought."""
    url = str(expected["url"]).partition("/node/v1/")[0] + "/asked"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - the head node's
            return str(answer.read(1000).decode(errors="replace"))
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
    installed = json.loads(EXPECTED.read_text())
    answered = asked(installed)
    report_until_heard(wanted_now(installed))
    while True:
        # Not all nodes in the same second.
        time.sleep(random.uniform(0.7, 1.3) * LOOK_EVERY)  # noqa: S311 - not a secret
        question = asked(installed)
        if question and question != answered:
            answered = question
            report_until_heard(wanted_now(installed))


def report_until_heard(expected: Mapping[str, object]) -> int:
    deadline = time.monotonic() + PATIENCE
    pause = 1.0
    while True:
        found = checks(expected, socket.gethostname().partition(".")[0], MOUNTS.read_text(), time.time())
        found += more(expected)
        try:
            state = report(str(expected["url"]), str(expected["token"]), found)
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
