"""Answers for Ubuntu's installer: NoCloud files with an autoinstall document. Pure."""

import base64
import textwrap
from typing import Any

import yaml

import templates
from headnode.packagecache import mirror_for_nodes, proxy_for_nodes
from images import curtin
from images.installer import AGENT, Inputs, agent_file
from images.nvidia.stack import Kind
from images.sources import version_pattern

PLACE = f"/run/headnode/{AGENT}"
FILES = ("user-data", "meta-data", "vendor-data", "network-config")


def arguments(head: str, seed: str, media: str, console: str | None) -> list[str]:
    """Kernel arguments of the live system.

    cloud-config-url: without it cloud-init takes url=, the whole medium, for its configuration and fetches it twice.
    """
    words = ["ip=dhcp", f"url={head}/images/{media}/media.iso", "autoinstall", "cloud-config-url=/dev/null"]
    words.append(f"ds=nocloud;s={seed}/")
    return words + (["console=tty0", f"console={console}"] if console else []) + ["---"]


def render(about: Inputs, name: str) -> str:
    values: dict[str, Any] = {"node": about.node, "deployment": about.deployment, "made_from": about.made_from}
    if name == "user-data":
        values["document"] = yaml.safe_dump(user_data(about), sort_keys=False, allow_unicode=True, width=110).rstrip()
    return templates.render(f"autoinstall/{name}.j2", **values)


def user_data(about: Inputs) -> dict[str, Any]:
    """For the live system: our agent as a file, and the autoinstall document."""
    content = base64.b64encode(agent_file(about.head, about.session)).decode("ascii")
    file = {"path": PLACE, "permissions": "0600", "encoding": "b64", "content": content}
    return {"write_files": [file], "autoinstall": document(about)}


def document(about: Inputs) -> dict[str, Any]:
    site = about.site
    return {
        "version": 1,
        "refresh-installer": {"update": False},
        "locale": "C.UTF-8",
        "keyboard": {"layout": "us"},
        "timezone": "Etc/UTC",
        "apt": apt(about),
        "storage": curtin.storage(about.resolved, str(about.facts.get("firmware"))),
        "kernel": {"flavor": "generic"},
        # People come from the directory and administrators by key, so no account is made here.
        "user-data": {"hostname": about.node.name, "disable_root": False, "ssh_pwauth": False, "users": []},
        "ssh": {"install-server": True, "allow-pw": False, "authorized-keys": list(site.access.admin_keys)},
        "packages": list(about.packages),
        "updates": "security",
        "reporting": {"headnode": {"type": "webhook", "endpoint": f"{about.seed}/report", "level": "INFO"}},
        "late-commands": [["python3", PLACE, "finish", "/target"]],
        "error-commands": [["python3", PLACE, "failed", "/var/log/installer"]],
        "shutdown": "reboot",
    }


def apt(about: Inputs) -> dict[str, Any]:
    found: dict[str, Any] = {"preserve_sources_list": False, "geoip": False, "fallback": "abort"}
    if mirror := mirror_for_nodes(about.site, "ubuntu"):
        found["mirror-selection"] = {"primary": [{"uri": mirror}]}
    # For apt alone: the installer's own 'proxy' would also take its reports, which no cache brings to the head node.
    if proxy := proxy_for_nodes(about.site) or about.site.packages.http_proxy:
        found["http_proxy"] = proxy
    if about.archives:
        found["sources"] = {
            f"headnode-{name}": {
                "source": " ".join(["deb", archive.uri, archive.suite, *archive.components]),
                "key": armoured(about.archive_keys[name]),
            }
            for name, archive in about.archives.items()
        }
    if pins := preferences(about):
        found["preferences"] = pins
    return found


def armoured(key: bytes) -> str:
    """As text, which is how curtin takes a key; one that is text already stays as it is."""
    if key.lstrip().startswith(b"-----BEGIN"):
        return key.decode("ascii", "replace")
    lines = "\n".join(textwrap.wrap(base64.b64encode(key).decode("ascii"), 64))
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{lines}\n-----END PGP PUBLIC KEY BLOCK-----\n"


def preferences(about: Inputs) -> list[dict[str, Any]]:
    """The same as the file that the node gets afterwards: one release, and no other."""
    found: list[dict[str, Any]] = []
    for name, _, release in (pin.partition("=") for pin in about.stack.values(Kind.PIN)):
        found.append({"package": name, "pin": f"version {version_pattern(release)}", "pin-priority": 1001})
        found.append({"package": name, "pin": "release *", "pin-priority": -1})
    return found
