"""Boot scripts: what a node is told at its next network boot.

A script is found by the address of the machine that asks, so over HTTP a node can read no script but its own. GRUB
scripts are written only for sites with Secure Boot: signed GRUB can read them over TFTP alone, and they hold no secret.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import templates
from headnode import run
from headnode.effective import effective
from headnode.errors import ProgramFailed, PublishFailed
from headnode.model import File, Files, Node, State, Window
from headnode.site import Site


class BootScripts:
    name = "boot"

    def __init__(self, window: Window | None = None) -> None:
        self.window = window

    def site_files(self, site: Site) -> Files:
        values = {"site": site, "head": site.provision.head, "made_from": f"site {site.cluster}"}
        files = {"http/boot/unknown.ipxe": text(templates.render("boot/unknown.ipxe.j2", **values))}
        if self.window:
            files["http/boot/discover.ipxe"] = text(templates.render("boot/discover.ipxe.j2", **values))
        if site.boot.uefi == "shim":
            files["tftp/grub/grub.cfg"] = text(templates.render("boot/start.grub.j2", window=self.window, **values))
        return files

    def node_files(self, site: Site, node: Node) -> Files:
        if node.address is None:
            return {}
        values = {
            "site": site,
            "node": node,
            "settings": {key: found.value for key, found in effective(site, node).items()},
            "head": site.provision.head,
            "made_from": f"node {node.name}, profile {node.profile}, intent {node.intent}",
        }
        files = {f"http/asked/{node.address}": question} if (question := asked(node)) else {}
        files |= {f"http/boot/{node.address}.ipxe": text(templates.render(f"boot/{node.intent}.ipxe.j2", **values))}
        if site.boot.uefi == "shim":
            script = templates.render(f"boot/{node.intent}.grub.j2", **values)
            files[f"tftp/boot/{node.address}.grub"] = text(script)
        return files

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        """GRUB scripts are read by GRUB's own checker; iPXE has none."""
        scripts = [path for path in changed if path.endswith((".grub", "grub.cfg"))]
        if scripts and not run.have("grub-script-check"):
            return ["grub-script-check is not installed here, so GRUB scripts were not checked"]
        for path in scripts:
            try:
                run.run(["grub-script-check", staged / path])
            except ProgramFailed as error:
                raise PublishFailed(f"GRUB refuses {path}: {error.stderr.strip()}") from error
        return []


def asked(node: Node) -> File | None:
    """What a running node finds when it looks: how is it? The deadline tells one wish from the next."""
    if node.state is not State.VERIFYING or node.deadline is None:
        return None
    return text(json.dumps({"ask": "verify", "until": node.deadline.isoformat()}) + "\n")


def text(content: str) -> File:
    return File(content.encode())
