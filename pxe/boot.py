"""Boot scripts: what a node is told at its next network boot, one iPXE and one GRUB script for each node.

A script is found by the address of the machine that asks, so a node can read no script but its own.
"""

from collections.abc import Iterable
from pathlib import Path

import templates
from headnode.effective import effective
from headnode.model import File, Files, Node
from headnode.site import Site


class BootScripts:
    name = "boot"

    def site_files(self, site: Site) -> Files:
        values = {"site": site, "made_from": f"site {site.cluster}"}
        return {
            "http/boot/unknown.ipxe": text(templates.render("boot/unknown.ipxe.j2", **values)),
        }

    def node_files(self, site: Site, node: Node) -> Files:
        if node.address is None:
            return {}
        settings = {key: found.value for key, found in effective(site, node).items()}
        values = {
            "site": site,
            "node": node,
            "settings": settings,
            "head": site.provision.head,
            "made_from": f"node {node.name}, profile {node.profile}, intent {node.intent}",
        }
        return {
            f"http/boot/{node.address}.ipxe": text(templates.render(f"boot/{node.intent}.ipxe.j2", **values)),
        }

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        """iPXE has no checker of its own, so there is nobody to ask."""
        return []


def text(content: str) -> File:
    return File(content.encode())
