"""The head node as a file server: nfs-ganesha's configuration and the directories it exports."""

import re
from collections.abc import Iterable
from pathlib import Path

import templates
from headnode.errors import PublishFailed
from headnode.model import File, Files, Node
from headnode.paths import Paths
from headnode.shares import clients, served, server_address
from headnode.site import Site

CONFIG = "ganesha/ganesha.conf"
PORT = 2049
BLOCK = re.compile(r"EXPORT \{(.*?)\n\}", re.DOTALL)
SETTING = re.compile(r"^\s*(\w+) = (.*?);$", re.MULTILINE)


class Exports:
    name = "ganesha"

    def __init__(self, places: Paths) -> None:
        self.places = places

    def site_files(self, site: Site) -> Files:
        if not served(site):
            return {}
        text = templates.render(
            "ganesha/ganesha.conf.j2",
            places=self.places,
            address=server_address(site),
            port=PORT,
            shares=served(site),
            clients=clients(site),
            made_from=f"site {site.cluster}",
        )
        return {CONFIG: File(text.encode())}

    def node_files(self, site: Site, node: Node) -> Files:
        return {}

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        if CONFIG in changed and (staged / CONFIG).exists():
            refuse_open_doors((staged / CONFIG).read_text())
        return []


def refuse_open_doors(config: str) -> None:
    """nfs-ganesha has no checker, ignores what it does not know, and serves with defaults that are wide open.

    So what must be true of every export is looked for in the text that it will read.
    """
    blocks = BLOCK.findall(config)
    if not blocks or config.count("{") != config.count("}"):
        raise broken("it has no complete EXPORT block")
    ids, names = [], []
    for block in blocks:
        outside, _, inside = block.partition("CLIENT {")
        own, theirs = (dict(SETTING.findall(part)) for part in (outside, inside))
        if own.get("Access_Type") != "None":
            raise broken(f"export {own.get('Pseudo')} is open to everybody")
        if own.get("Squash") != "Root_Squash" or theirs.get("Squash") != "Root_Squash":
            raise broken(f"export {own.get('Pseudo')} does not squash root")
        if not theirs.get("Clients") or theirs.get("Access_Type") not in ("RO", "RW"):
            raise broken(f"export {own.get('Pseudo')} does not say who may mount it, and how")
        ids.append(own.get("Export_Id"))
        names.append(own.get("Pseudo"))
    if len(set(ids)) != len(ids) or len(set(names)) != len(names):
        raise broken("two exports have the same number or name")


def broken(why: str) -> PublishFailed:
    return PublishFailed(f"{CONFIG} is refused: {why}; what was live before still is")


def prepare(places: Paths, site: Site) -> None:
    """The server's own directories, and those it exports: root's, with people's homes inside."""
    # This one it insists on, wherever its other files are.
    for directory in (places.state / "ganesha", places.runtime / "ganesha", Path("/var/run/ganesha")):
        directory.mkdir(parents=True, exist_ok=True)
    for share in served(site):
        places.below_root(share.directory).mkdir(parents=True, exist_ok=True, mode=0o755)
