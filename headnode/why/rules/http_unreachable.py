"""The first boot program arrived, and nothing was asked for over HTTP."""

from headnode.why.case import Finding, Stage, View
from headnode.why.rule import MEDIUM, finding, stuck


def look(view: View) -> Finding | None:
    loaders = view.timeline.fetched(".efi", ".kpxe")
    if not stuck(view, Stage.SCRIPT) or not loaders.events:
        return None
    sentence = (
        "it fetched the boot program and never asked for its script: a firewall closes TCP port "
        "80, or that program does not run on this machine"
    )
    return finding("no-http", sentence, MEDIUM, "nft list ruleset", loaders)
