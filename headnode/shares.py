"""What nodes mount over NFS, and who serves it: the storage of site.yaml with its words made into addresses. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from headnode.site import Export, Site

HOME = "/home"
# Where the head node serves and nodes mount, in the order of preference.
NETWORKS = ("storage", "provision")


@dataclass(frozen=True)
class Share:
    path: str
    # Where the server has it.
    directory: str
    # Its name or address, as nodes know it.
    server: str
    # Whether that is this head node.
    served: bool
    read_only: bool = False
    options: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return f"{self.server}:{self.directory}"


def shares(site: Site) -> tuple[Share, ...]:
    return tuple(found(site))


def served(site: Site) -> tuple[Share, ...]:
    return tuple(share for share in found(site) if share.served)


def found(site: Site) -> Iterator[Share]:
    if site.storage.home:
        yield share(site, site.storage.home, HOME, False, ("nodev", "nosuid"))
    for mount in site.storage.mounts:
        yield share(site, mount.source, mount.path, mount.read_only, mount.options)


def share(site: Site, source: Export, path: str, read_only: bool, options: tuple[str, ...]) -> Share:
    ours = source.server == "head"
    server = str(server_address(site)) if ours else source.server
    directory = source.export.rstrip("/") or "/"
    wanted = (*options, "ro") if read_only and "ro" not in options else options
    return Share(path, directory, server, ours, read_only or "ro" in options, wanted)


def server_address(site: Site) -> IPv4Address | None:
    """The head node's address for NFS: on the storage network, when it has one there."""
    heads = (site.networks[name].head for name in NETWORKS if name in site.networks)
    return next((head for head in heads if head is not None), None)


def clients(site: Site) -> tuple[IPv4Network, ...]:
    """Who may mount: the nodes' networks, and nobody else."""
    return tuple(site.networks[name].cidr for name in NETWORKS if name in site.networks)
