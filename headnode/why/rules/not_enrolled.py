"""Nobody has enrolled a node of this name."""

from headnode.why.case import Finding, View
from headnode.why.rule import HIGH, finding


def look(view: View) -> Finding | None:
    if view.case.node is not None:
        return None
    seen = view.case.sightings
    if len(seen) == 1:
        sentence = f"not enrolled; one unknown machine asks for an address: {seen[0].mac}"
        return finding(
            "not-enrolled", sentence, HIGH, f"headnode enroll {{node}} --mac {seen[0].mac} --profile PROFILE"
        )
    more = f"; {len(seen)} unknown machines ask for an address" if seen else ""
    return finding("not-enrolled", f"not enrolled{more}", HIGH, "headnode seen" if seen else "headnode nodes")
