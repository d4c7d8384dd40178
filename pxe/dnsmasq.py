"""DHCP, TFTP and DNS for the provision network: dnsmasq's configuration, and our own judgement of it.

Host entries are one small file for each node: publishing a node touches only its own. They carry no tags
(dnsmasq 2.90 crashes on reload with them) and are checked here, because `dnsmasq --test` does not read them.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import templates
from headnode import run
from headnode.errors import ProgramFailed, PublishFailed
from headnode.model import File, Files, Node
from headnode.site import Site

CONFIG = "dnsmasq/dnsmasq.conf"
HOSTS = "dnsmasq/hosts.d"
NAMES = "dnsmasq/names.d"

HOST_ENTRY = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2},\d{1,3}(\.\d{1,3}){3},[a-z0-9-]{1,63}", re.ASCII)


class Dnsmasq:
    name = "dnsmasq"

    def __init__(self, published: Path, logs: Path, runtime: Path) -> None:
        self.published = published
        self.logs = logs
        self.runtime = runtime

    def site_files(self, site: Site) -> Files:
        values = {
            "site": site,
            "net": site.provision,
            "published": self.published,
            "logs": self.logs,
            "runtime": self.runtime,
            "made_from": f"site {site.cluster}",
        }
        return {CONFIG: text(templates.render("dnsmasq/dnsmasq.conf.j2", **values))}

    def node_files(self, site: Site, node: Node) -> Files:
        if node.address is None:
            return {}
        values = {"site": site, "node": node, "made_from": f"node {node.name}"}
        return {
            f"{HOSTS}/{node.name}": text(templates.render("dnsmasq/host.j2", **values)),
            f"{NAMES}/{node.name}": text(templates.render("dnsmasq/names.j2", **values)),
        }

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        warnings: list[str] = []
        for path in changed:
            if path == CONFIG:
                check_scope(path, (staged / path).read_text())
                warnings += ask_dnsmasq(staged / path)
            elif path.startswith(f"{HOSTS}/"):
                check_host_entries(path, (staged / path).read_text())
        return warnings


def check_scope(name: str, config: str) -> None:
    """A configuration that could answer on any other interface is refused, whoever wrote it."""
    lines = [line.split("#")[0].strip() for line in config.splitlines()]
    interfaces = [line for line in lines if line.startswith("interface=")]
    if len(interfaces) != 1 or "*" in interfaces[0] or "bind-interfaces" not in lines:
        raise PublishFailed(
            f"{name} does not hold dnsmasq to one interface (needs one 'interface=' and 'bind-interfaces')",
            hint="DHCP must never leave the provision network; restore templates/dnsmasq/dnsmasq.conf.j2",
        )
    if "dhcp-ignore=tag:!known" not in lines:
        raise PublishFailed(f"{name} would answer unknown hardware (needs 'dhcp-ignore=tag:!known')")


def check_host_entries(name: str, entries: str) -> None:
    for number, line in enumerate(entries.splitlines(), 1):
        if line and not line.startswith("#") and not HOST_ENTRY.fullmatch(line):
            raise PublishFailed(f"{name}, line {number}: '{line}' is not MAC,ADDRESS,NAME")


def ask_dnsmasq(config: Path) -> list[str]:
    if not run.have("dnsmasq"):
        return ["dnsmasq is not installed here, so its configuration was not checked"]
    try:
        run.run(["dnsmasq", "--test", f"--conf-file={config}"])
    except ProgramFailed as error:
        said = error.stderr.strip() or error.message
        raise PublishFailed(f"dnsmasq refuses {CONFIG}: {said}; what was live before still is") from error
    return []


def text(content: str) -> File:
    return File(content.encode())
