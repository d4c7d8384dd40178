"""Checks of site.yaml that look at more than one field. Each yields a problem with the path it belongs to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import combinations

from headnode import fields, layoutchecks
from headnode.site import Export, Layout, Network, Settings, Site

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    path: Path
    value: object
    expected: str


def problems(site: Site) -> Iterator[Problem]:
    yield from network_problems(site)
    yield from overlaps(site)
    yield from profile_problems(site)
    for name, layout in site.layouts.items():
        yield from layout_problems(name, layout)
    yield from service_problems(site)
    yield from storage_problems(site)
    yield from time_problems(site)
    yield from package_problems(site)
    yield from web_problems(site)
    yield from notify_problems(site)


def network_problems(site: Site) -> Iterator[Problem]:
    if "provision" not in site.networks:
        yield Problem(("networks",), ", ".join(site.networks) or "{}", "add the one named provision, where nodes boot")
    for name, net in site.networks.items():
        at = ("networks", name)
        yield from addresses_outside(at, net)
        yield from range_problems(at, net)
        if net.dhcp and name != "management":
            expected = "only the management network takes it; the provision network always has DHCP"
            yield Problem((*at, "dhcp"), "true", expected)
        if net.bond and net.type == "infiniband":
            expected = "InfiniBand ports cannot be bonded; make each port's network one of its own"
            yield Problem((*at, "bond"), net.bond, expected)
    provision = site.networks.get("provision")
    if provision:
        for key in ("interface", "head", "node_range"):
            if getattr(provision, key) is None:
                yield Problem(("networks", "provision", key), "", "is missing, and nodes cannot boot without it")


def addresses_outside(at: Path, net: Network) -> Iterator[Problem]:
    whole = net.cidr
    inside = f"use an address inside {whole}"
    for key in ("head", "gateway"):
        address = getattr(net, key)
        if address is None:
            continue
        if address not in whole:
            yield Problem((*at, key), address, f"that is outside {whole}; {inside}")
        elif whole.prefixlen < 31 and address in (whole.network_address, whole.broadcast_address):
            yield Problem((*at, key), address, f"that is the network's own or broadcast address; {inside}")


def range_problems(at: Path, net: Network) -> Iterator[Problem]:
    for key in ("node_range", "discovery_range"):
        found = getattr(net, key)
        if found is None:
            continue
        if found.first not in net.cidr or found.last not in net.cidr:
            yield Problem((*at, key), found, f"that reaches outside {net.cidr}; use a range inside it")
        for other in ("head", "gateway"):
            address = getattr(net, other)
            if address is not None and address in found:
                yield Problem((*at, other), address, f"that is inside {key} {found}; use an address outside it")
    nodes, lent = net.node_range, net.discovery_range
    if nodes and lent and nodes.first <= lent.last and lent.first <= nodes.last:
        yield Problem((*at, "discovery_range"), lent, f"that overlaps node_range {nodes}; keep the two apart")


def overlaps(site: Site) -> Iterator[Problem]:
    for (one, first), (two, second) in combinations(site.networks.items(), 2):
        if first.cidr.overlaps(second.cidr):
            yield Problem(
                ("networks", two, "cidr"),
                second.cidr,
                f"that overlaps network '{one}' ({first.cidr}); keep them apart",
            )
        if first.interface and first.interface == second.interface and first.vlan == second.vlan:
            yield Problem(
                ("networks", two, "interface"),
                second.interface,
                f"network '{one}' is on that interface too; use another interface or a VLAN",
            )


def profile_problems(site: Site) -> Iterator[Problem]:
    for name, profile in site.profiles.items():
        if profile.parent is not None and profile.parent not in site.profiles:
            known = ", ".join(site.profiles)
            yield Problem(("profiles", name, "parent"), profile.parent, f"there is no such profile; use one of {known}")
        elif cycle := parent_cycle(site, name):
            yield Problem(
                ("profiles", name, "parent"),
                profile.parent,
                f"profiles inherit in a circle ({' → '.join(cycle)}); remove one parent",
            )
    holders: list[tuple[Path, Settings]] = [(("defaults",), site.defaults)]
    holders += [(("profiles", name), profile) for name, profile in site.profiles.items()]
    holders += [(("groups", name), group) for name, group in site.groups.items()]
    for at, settings in holders:
        yield from settings_problems(at, settings, site)


def settings_problems(at: Path, settings: Settings, site: Site) -> Iterator[Problem]:
    """What the types cannot say about settings; a single node's are checked with it too."""
    if settings.layout is not None and settings.layout not in site.layouts:
        known = ", ".join(site.layouts) or "none yet"
        yield Problem((*at, "layout"), settings.layout, f"there is no such layout; defined are: {known}")
    branch = settings.nvidia_branch
    if branch is not None and branch not in ("none", "auto") and not fields.DRIVER_BRANCH.fullmatch(branch):
        yield Problem((*at, "nvidia_branch"), branch, f"use {fields.DRIVER_BRANCHES}")


def parent_cycle(site: Site, start: str) -> list[str]:
    """The circle that `start` is part of, or nothing."""
    seen = [start]
    at = site.profiles[start].parent
    while at is not None and at in site.profiles:
        if at == start:
            return [*seen, start]
        if at in seen:
            return []
        seen.append(at)
        at = site.profiles[at].parent
    return []


def layout_problems(name: str, layout: Layout) -> Iterator[Problem]:
    for path, value, expected in layoutchecks.problems(layout):
        yield Problem(("layouts", name, *path), value, expected)


def service_problems(site: Site) -> Iterator[Problem]:
    if site.directory.mode == "external" and not site.directory.uri:
        yield Problem(
            ("directory", "uri"),
            "",
            "is missing; an external directory needs its address, such as ldaps://ldap.example.org",
        )
    if site.directory.last_id <= site.directory.first_id:
        yield Problem(("directory", "last_id"), site.directory.last_id, f"use more than {site.directory.first_id}")
    if site.directory.mode == "internal":
        yield from group_problems(site)
    url = site.database.url
    if url is not None and not url.startswith(("postgresql://", "postgresql+psycopg://")):
        yield Problem(("database", "url"), url, "use a URL such as postgresql://headnode@db.example.org/headnode")


def group_problems(site: Site) -> Iterator[Problem]:
    """Groups of our own directory have names that every system takes."""
    named: list[tuple[Path, str | None]] = [
        (("directory", "admin_group"), site.directory.admin_group),
        (("access", "sudo_group"), site.access.sudo_group),
    ]
    holders = [(("defaults",), site.defaults)]
    holders += [(("profiles", name), profile) for name, profile in site.profiles.items()]  # type: ignore[misc]
    holders += [(("groups", name), group) for name, group in site.groups.items()]  # type: ignore[misc]
    named += [((*at, "access"), group) for at, settings in holders for group in settings.access or ()]
    for at, group in named:
        if group is not None and not fields.ACCOUNT.fullmatch(group):
            yield Problem(at, group, "use up to 32 lower-case letters, digits, _ and -, beginning with a letter")


def web_problems(site: Site) -> Iterator[Problem]:
    """People's door is never where nodes or BMCs are."""
    address = IPv4Address(site.web.host)
    for name, net in site.networks.items():
        if address in net.cidr:
            expected = f"that is on the network '{name}'; use loopback or the address on the admins' network"
            yield Problem(("web", "listen"), site.web.listen, expected)
    if (site.web.certificate is None) != (site.web.key is None):
        yield Problem(("web", "certificate"), site.web.certificate or "", "give certificate and key, or neither")


SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*", re.ASCII)
DIRECTORY = re.compile(r"/[A-Za-z0-9._+/-]*", re.ASCII)
# Served, they would hand the head node itself to every node.
NEVER_SERVED = ("/", "/etc", "/var", "/run", "/proc", "/sys", "/dev", "/boot", "/root", "/usr", "/bin", "/sbin", "/lib")


def storage_problems(site: Site) -> Iterator[Problem]:
    """What is mounted where, and what the head node would let others see."""
    mounts: list[tuple[Path, str, Export, tuple[str, ...]]] = []
    if site.storage.home:
        mounts.append((("storage", "home"), "/home", site.storage.home, ()))
    for index, mount in enumerate(site.storage.mounts):
        mounts.append((("storage", "mounts", index), mount.path, mount.source, mount.options))
    seen: set[str] = set()
    for at, path, source, options in mounts:
        yield from export_problems(at, source)
        if not layoutchecks.MOUNT.fullmatch(path) or path == "/" or ".." in path:
            yield Problem(at, path, "use an absolute path of letters, digits and . _ + -, such as /data")
        if path in seen:
            yield Problem(at, path, "two file systems are mounted there; use another path")
        for option in options:
            if not layoutchecks.OPTION.fullmatch(option):
                yield Problem(at, option, "use one mount option per list item, such as noatime")
        seen.add(path)
    yield from served_twice([(at, source) for at, _, source, _ in mounts if source.server == "head"])


def export_problems(at: Path, source: Export) -> Iterator[Problem]:
    directory = source.export
    if not SERVER.fullmatch(source.server) or not DIRECTORY.fullmatch(directory) or ".." in directory.split("/"):
        yield Problem(at, source, "use server:/directory, such as nas.example.org:/export/home")
    elif source.server == "head" and (directory.rstrip("/") or "/") in NEVER_SERVED:
        yield Problem(at, source, "the head node serves no directory of its own system; use one such as /srv/home")


def served_twice(served: list[tuple[Path, Export]]) -> Iterator[Problem]:
    """A directory inside another would be reached with the other's permissions."""
    for index, (at, source) in enumerate(served):
        for _, other in served[:index]:
            one, two = (f"{export.export.rstrip('/')}/" for export in (source, other))
            if one.startswith(two) or two.startswith(one):
                yield Problem(at, source, f"that and {other} contain each other; serve directories that are apart")


TIME_SERVER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?", re.ASCII)
REGISTRY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?", re.ASCII)
URL = re.compile(r"https?://[A-Za-z0-9._~:/@%+-]+", re.ASCII)


def time_problems(site: Site) -> Iterator[Problem]:
    for index, server in enumerate(site.time.servers):
        if not TIME_SERVER.fullmatch(server):
            expected = "use a host name or an address, such as 2.debian.pool.ntp.org"
            yield Problem(("time", "servers", index), server, expected)
    if site.time.nts and not site.time.servers:
        yield Problem(("time", "nts"), "true", "NTS needs servers to ask; name them in time.servers")


def package_problems(site: Site) -> Iterator[Problem]:
    for key in ("proxy", "mirror", "http_proxy"):
        value = getattr(site.packages, key)
        if value is not None and not URL.fullmatch(value) and (key, value) != ("mirror", "head"):
            yield Problem(("packages", key), value, "use an address such as http://10.20.0.9:3142")
    for key, example in (("pip_index", "http://10.20.0.9:3141/simple"), ("docker_mirror", "https://10.20.0.9:5000")):
        value = getattr(site.packages, key)
        if value is not None and not URL.fullmatch(value):
            yield Problem(("packages", key), value, f"use an address such as {example}")
    for host, file in site.packages.registries.items():
        port = host.partition(":")[2]
        if not REGISTRY.fullmatch(host) or (port and not 1 <= int(port) <= 65_535):
            right = "use a host, or a host and a port from 1 to 65535, such as registry.lan:5000"
            yield Problem(("packages", "registries"), host, right)
        if not file.startswith("/"):
            yield Problem(("packages", "registries", host), file, "use the absolute path of a file on the head node")


MAIL_SERVER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?", re.ASCII)


def notify_problems(site: Site) -> Iterator[Problem]:
    wanted = site.notify
    file = wanted.webhook_file
    if file is not None and "://" in file:
        # Not repeated: whoever knows the address may post to it.
        expected = (
            "put the address into a file that only root can read, and name the file, such as /etc/headnode/webhook"
        )
        yield Problem(("notify", "webhook_file"), f"{file.partition('://')[0]}://…", expected)
    elif file is not None and not file.startswith("/"):
        yield Problem(("notify", "webhook_file"), file, "use an absolute path, such as /etc/headnode/webhook")
    senders = [(("notify", "mail_from"), wanted.mail_from)] if wanted.mail_from is not None else []
    for at, address in [*senders, *((("notify", "mail_to", n), to) for n, to in enumerate(wanted.mail_to))]:
        if not fields.is_email(address):
            yield Problem(at, address, "use one address such as ops@example.org")
    if not MAIL_SERVER.fullmatch(wanted.smtp) or not 1 <= int(wanted.smtp.partition(":")[2] or 25) <= 65_535:
        yield Problem(("notify", "smtp"), wanted.smtp, "use HOST:PORT, such as mail.example.org:25")
