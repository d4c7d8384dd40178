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
from collections.abc import Callable, Mapping
from pathlib import Path

EXPECTED = Path("/etc/headnode/report.json")
MOUNTS = Path("/proc/self/mounts")
PROC = Path("/proc")
PATIENCE = 600.0
CHECKS = Path("/usr/local/lib/headnode/nodecheck")
CHECK_PATIENCE = 600.0
LOOK_EVERY = 20.0
# How long a clock may take to be set. A node that is still wrong then says so, and is not up.
CLOCK_PATIENCE = 300
MOUNT_PATIENCE = 300
CHRONYC = ("chronyc", "-n", "-c")
# How long sssd may take to find the directory. A node where it never does says so, and is not up.
PEOPLE_PATIENCE = 300.0
FIRST_PERSON, NOBODY = 1000, 65534
Lookup = Callable[[str, str], str]


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
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
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


def people(expected: Mapping[str, object], passwd: str, group: str, lookup: Lookup) -> list[dict[str, object]]:
    """Whether names and numbers mean here what they mean everywhere. Pure, but for what `lookup` asks."""
    wanted = expected.get("people")
    if not isinstance(wanted, dict):
        return []
    found = [same_number(lookup, "group", name, number) for name, number in wanted.get("groups", {}).items()]
    for name, number in wanted.get("users", {}).items():
        # Somebody may have been removed since this was written, but nobody's number ever changes.
        if lookup("passwd", name):
            found.append(same_number(lookup, "passwd", name, number))
    wrong = [*local_people(passwd, wanted), *shadows(passwd, group, wanted, lookup)]
    found.append(check("local accounts", not wrong, "; ".join(wrong[:10]) or "none that the directory has too"))
    return found


def same_number(lookup: Lookup, database: str, name: str, number: int) -> dict[str, object]:
    fields = lookup(database, name).strip().split(":")
    got = fields[2] if len(fields) > 2 else "unknown; sssd does not find it in the directory"
    return check(f"{database} {name}", got == str(number), f"its number is {got}, and should be {number}")


def local_people(passwd: str, wanted: Mapping[str, object]) -> list[str]:
    """Accounts of people that only this node has."""
    allowed = wanted.get("local")
    found: list[str] = []
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) < 7 or not fields[2].isdigit() or int(fields[2]) in (NOBODY, 0):
            continue
        if int(fields[2]) >= FIRST_PERSON and not (isinstance(allowed, list) and fields[0] in allowed):
            found.append(f"the local account {fields[0]} has UID {fields[2]}, which is for the directory to give")
    return found


def shadows(passwd: str, group: str, wanted: Mapping[str, object], lookup: Lookup) -> list[str]:
    """Local names that the directory has too: whoever asks by name is told of the local one."""
    if not wanted.get("groups"):
        return []
    names = [line.split(":")[0] for line in passwd.splitlines() if line.count(":") == 6]
    found = [f"the local account {name} hides the directory's" for name in names if lookup("passwd", name)]
    first, last = wanted.get("first"), wanted.get("last")
    given = range(first, last + 1) if isinstance(first, int) and isinstance(last, int) else range(0)
    for line in group.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdigit() and int(fields[2]) in given:
            found.append(f"the local group {fields[0]} has GID {fields[2]}, which is for the directory to give")
    return found


def ask_sssd(database: str, name: str) -> str:
    """What sssd, and nobody else, says of a name."""
    return said(["getent", "-s", "sss", database, name]) or ""


def people_when_known(expected: Mapping[str, object]) -> list[dict[str, object]]:
    """Wait, within bounds, for the directory to be found."""
    deadline = time.monotonic() + PEOPLE_PATIENCE
    while True:
        found = people(expected, Path("/etc/passwd").read_text(), Path("/etc/group").read_text(), ask_sssd)
        if all(item["ok"] for item in found) or time.monotonic() > deadline:
            return found
        time.sleep(2.0)


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
        tracking, mounts = synchronised(expected), settled(expected)
        found = checks(expected, socket.gethostname().partition(".")[0], mounts, tracking)
        found += people_when_known(expected)
        found += gpu_checks(expected.get("gpus"), PROC)
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
