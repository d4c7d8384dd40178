"""What rules share: making findings, and asking how long nothing has happened."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from headnode.model import Event, State
from headnode.why.case import Confidence, Finding, Stage, View
from headnode.why.timeline import moment

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW
MOST_EVIDENCE = 5
# How long nothing may be heard before a stage counts as stuck. Servers test their memory for minutes before they ask.
PATIENCE: Mapping[Stage, timedelta] = {
    Stage.POWER: timedelta(seconds=30),
    Stage.DHCP: timedelta(minutes=5),
    Stage.ADDRESS: timedelta(seconds=30),
    Stage.LOADER: timedelta(seconds=45),
    Stage.SCRIPT: timedelta(seconds=60),
    Stage.KERNEL: timedelta(seconds=60),
    Stage.RAMDISK: timedelta(seconds=120),
    Stage.AGENT: timedelta(minutes=3),
    Stage.INVENTORY: timedelta(minutes=3),
    Stage.PLAN: timedelta(minutes=3),
    Stage.WORK: timedelta(minutes=10),
    Stage.DISK: timedelta(minutes=6),
    Stage.REPORT: timedelta(minutes=10),
}


def finding(
    cause: str, sentence: str, confidence: Confidence, next: str, *evidence: Event | Iterable[Event] | None
) -> Finding:
    """With the newest of the evidence, each event once."""
    events: list[Event] = []
    for item in evidence:
        listed = [item] if isinstance(item, Event) else list(item or ())
        events += [event for event in listed if event not in events]
    return Finding(cause, sentence, confidence, next, tuple(sorted(events, key=moment)[-MOST_EVIDENCE:]))


def stuck(view: View, *stages: Stage) -> bool:
    """It waits for one of these stages, and has done so for longer than that usually takes."""
    missing = view.missing
    if missing is None or missing not in stages:
        return False
    if view.case.failed or (view.case.node and view.case.node.state is State.FAILED):
        return True
    events = view.timeline.events
    asked = view.case.asked.at
    last = max([*(moment(event) for event in events[-1:]), *([asked] if asked else [])], default=None)
    if missing in (Stage.DHCP, Stage.POWER) or last is None:
        last = asked
    return last is not None and view.case.now - last > PATIENCE.get(missing, timedelta())


def ended(view: View, pattern: str) -> re.Match[str] | None:
    """The reason of its failure, if it reads like this."""
    return re.search(pattern, view.case.reason) if view.case.node and view.case.node.state is State.FAILED else None


def checks(view: View) -> list[Mapping[str, Any]]:
    """The newest report's checks that did not pass."""
    report = view.timeline.last("verify")
    listed = report.data.get("checks") if report else None
    return [check for check in listed if not check.get("ok")] if isinstance(listed, list) else []


def failed_check(view: View, *names: str, saying: str = "") -> str | None:
    """What the first check of that name says that did not pass."""
    for check in checks(view):
        named = any(str(check.get("name", "")).startswith(name) for name in names)
        if named and re.search(saying, str(check.get("message", "")), re.IGNORECASE):
            return str(check.get("message", ""))
    return None


def line(event: Event | None) -> str:
    """What the console showed."""
    return str(event.data.get("line") or "") if event else ""


def bmc_trouble(view: View, *statuses: str) -> Event | None:
    """The newest word of the BMC, when it is one of these and nothing better was heard since."""
    said = view.timeline.kinds("bmc.status", "bmc.netboot", "bmc.power", "bmc.bootdev").events
    newest = said[-1] if said else None
    if newest is None or newest.data.get("status") not in statuses:
        return None
    return newest


def before_any_boot(view: View) -> bool:
    """Whether the BMC matters for how far it got: once it has booted, the BMC is another matter."""
    return view.missing in (Stage.POWER, Stage.DHCP)
