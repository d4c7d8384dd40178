"""Answers for Debian's installer: a preseed file with a partman recipe. Pure."""

from typing import Any
from urllib.parse import urlsplit

import templates
from headnode.errors import LayoutRefused
from headnode.packagecache import mirror_for_nodes, proxy_for_nodes
from images import partman
from images.installer import AGENT, Inputs
from images.nvidia.stack import Kind
from images.recipes import PUBLIC, headers_of, kernel_package, suite_of

# Where the script that chooses the disk leaves its name.
CHOSEN = "/tmp/headnode-disk"  # noqa: S108 - the installer has no other user
# Where the new system keeps the agent while it ends the installation.
PLACE = f"/root/{AGENT}"


def arguments(node: str, domain: str, seed: str, console: str | None) -> list[str]:
    """Kernel arguments of the installer; what follows the dashes is also the installed system's."""
    words = ["auto=true", "priority=critical", f"url={seed}/preseed.cfg", "interface=auto", "DEBIAN_FRONTEND=text"]
    words += [f"hostname={node}", f"domain={domain}"]
    # A provision network often leads nowhere else, and the installer asks about that before it has its answers.
    words.append("netcfg/no_default_route=true")
    return words + (["console=tty0", f"console={console}"] if console else []) + ["---"]


def render(about: Inputs) -> str:
    kernel = kernel_package("debian", "generic", about.architecture)
    refuse_nameless(about)
    return templates.render(
        "preseed/preseed.cfg.j2",
        made_from=about.made_from,
        site=about.site,
        node=about.node,
        mirror=mirror(about),
        suite=suite_of("debian", str(about.settings["release"])),
        layout=about.resolved.layout,
        recipe=partman.recipe(about.resolved).strip(),
        efi=about.facts.get("firmware") == "uefi",
        kernel=kernel,
        components=about.stack.values(Kind.COMPONENT),
        packages=[headers_of(kernel) if name.startswith("linux-headers-") else name for name in now(about)],
        seed=about.seed,
        late=late(about),
    )  # fmt: skip


def refuse_nameless(about: Inputs) -> None:
    disk = partman.only_table(about.resolved).disk
    if not disk.serial or "'" in disk.serial:
        raise LayoutRefused(
            f"{disk} has no serial number by which Debian's installer could know it again",
            hint="use 'method: image' for this node",
        )


def disk_script(about: Inputs) -> str:
    """Run before partitioning."""
    disk = partman.only_table(about.resolved).disk
    return templates.render("preseed/disk.sh.j2", made_from=about.made_from, disk=disk, seed=about.seed, chosen=CHOSEN)


def later(about: Inputs) -> tuple[str, ...]:
    """Packages of other archives, or held at a release: our agent installs them when the node's own files are there."""
    apart = about.stack.values(Kind.ARCHIVE) or about.stack.values(Kind.PIN)
    return about.stack.packages if apart else ()


def now(about: Inputs) -> list[str]:
    return [name for name in about.packages if name not in later(about)]


def mirror(about: Inputs) -> dict[str, Any]:
    parts = urlsplit(mirror_for_nodes(about.site, "debian") or PUBLIC["debian"][0][0])
    proxy = proxy_for_nodes(about.site) or about.site.packages.http_proxy or ""
    return {"protocol": parts.scheme, "host": parts.netloc, "directory": parts.path or "/", "proxy": proxy}


def late(about: Inputs) -> str:
    """One line, because it is one answer: identifiers of partitions, then all that makes the system this node.

    When any of it fails the installer stops and waits: restarted, it would begin anew, and so for ever.
    """
    return "; ".join([
        "set -e",
        f"disk=$(cat {CHOSEN})",
        *partman.late_commands(about.resolved, variable="disk"),
        f"wget -q -O /target{PLACE} {about.seed}/{AGENT}",
        f"in-target python3 {PLACE} finish /",
        f"rm -f /target{PLACE}",
    ])  # fmt: skip
