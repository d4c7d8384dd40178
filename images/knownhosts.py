"""The known_hosts of the cluster, for people and programs on the head node: one line, however many nodes there are."""

from collections.abc import Iterable
from pathlib import Path

import templates
from headnode.model import File, Files, Node
from headnode.site import Site

KNOWN_HOSTS = "ssh/known_hosts"


class KnownHosts:
    name = "known_hosts"

    def __init__(self, authority: str) -> None:
        self.authority = authority

    def site_files(self, site: Site) -> Files:
        if not self.authority:
            return {}
        made_from = f"site {site.cluster}"
        text = templates.render("overlay/known_hosts.j2", made_from=made_from, site=site, authority=self.authority)
        return {KNOWN_HOSTS: File(text.encode())}

    def node_files(self, site: Site, node: Node) -> Files:
        return {}

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        """ssh passes over lines that it does not understand, so there is nobody to ask."""
        return []
