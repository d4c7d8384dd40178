"""It started from its disk and never said how it is."""

from headnode.why.case import Finding, Stage, View
from headnode.why.chain import installed
from headnode.why.rule import HIGH, LOW, MEDIUM, finding, stuck


def look(view: View) -> Finding | None:
    if not stuck(view, Stage.REPORT, Stage.DISK):
        return None
    later = installed(view.case)
    login = later.phases("login")
    refused = later.fetched("/node/v1/verify", good=False)
    if refused.events:
        sentence = "its report was refused: it carries the token of an older deployment"
        return finding("report-refused", sentence, HIGH, "headnode deploy {node}", refused)
    if view.case.asked.what == "verify":
        sentence = (
            "it was asked for a report and did not answer: it is off, its network is down, or the "
            "report service does not run"
        )
        return finding("no-report", sentence, MEDIUM, "headnode console {node}", later.kinds("console.phase"))
    if login.events:
        sentence = (
            "it started from its disk, but its report does not arrive: its network interface has "
            "another name, or a service hangs (sssd)"
        )
        return finding("no-report", sentence, MEDIUM, "headnode console {node}", login)
    sentence = (
        "everything is on the disk, and the node was not heard since: it did not start from its "
        "disk, or its network does not come up"
    )
    return finding(
        "no-report",
        sentence,
        LOW,
        "headnode console {node}",
        view.timeline.last("deployed"),
        later.kinds("console.phase"),
    )
