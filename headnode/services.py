"""The services of a head node, described once: 'headnode up' runs them, systemd units are made from them."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headnode import clock, exports, packagecache, shares
from headnode.machine import answers
from headnode.paths import Paths
from headnode.site import Site


@dataclass(frozen=True)
class Service:
    name: str
    description: str
    argv: tuple[str, ...]
    # True once it does its work; asked again and again while it starts.
    ready: Callable[[], bool]
    # Capabilities it needs, and no others.
    capabilities: tuple[str, ...] = ()
    # What it may write to, below the root.
    writes: tuple[Path, ...] = ()
    # Directories outside of our own that it works in; systemd makes them before it takes the rest away.
    elsewhere: tuple[Path, ...] = ()
    # Whether people's files are its business: their directories are not hidden from it, nor the bits they set.
    homes: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    # Where it writes its process id, if it does.
    pid_file: Path | None = None


def services(site: Site, paths: Paths) -> list[Service]:
    """In the order they start."""
    found = [node_door(paths), nginx(paths), dnsmasq(paths, "names"), dnsmasq(paths, "provision")]
    if site.directory.mode == "internal":
        found.append(slapd(site, paths))
    if site.management and site.management.dhcp:
        found.append(dnsmasq(paths, "management"))
    if site.management and site.management.head:
        found.append(bmc(paths))
    found.append(chronyd(paths))
    if shares.served(site):
        found.append(nfs(site, paths))
    if packagecache.wanted(site):
        found.append(package_cache(site, paths))
    return [*found, reconcile(paths), people_door(site, paths)]


def dnsmasq(paths: Paths, network: str) -> Service:
    pid_file = paths.runtime / "dnsmasq" / f"{network}.pid"
    return Service(
        name="dnsmasq" if network == "provision" else f"dnsmasq-{network}",
        description="names of the cluster" if network == "names" else f"DHCP on the {network} network",
        argv=("dnsmasq", "--keep-in-foreground", f"--conf-file={paths.published}/dnsmasq/{network}.conf"),
        ready=lambda: program_of(pid_file) == "dnsmasq",
        capabilities=(
            "CAP_NET_BIND_SERVICE",
            "CAP_NET_ADMIN",
            "CAP_NET_RAW",
            "CAP_SETUID",
            "CAP_SETGID",
            "CAP_CHOWN",
            "CAP_KILL",
        ),
        writes=(paths.runtime, paths.logs),
        pid_file=pid_file,
    )


def nginx(paths: Paths) -> Service:
    config, pid_file = paths.published / "nginx/nginx.conf", paths.runtime / "nginx/nginx.pid"
    return Service(
        name="nginx",
        description="boot scripts and images for nodes",
        argv=("nginx", "-e", "stderr", "-g", "daemon off;", "-c", str(config)),
        ready=lambda: program_of(pid_file) == "nginx",
        capabilities=("CAP_NET_BIND_SERVICE", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL"),
        writes=(paths.runtime, paths.logs),
        pid_file=pid_file,
    )


def slapd(site: Site, paths: Paths) -> Service:
    from headnode.directory.server import CONFIG, addresses, listening

    user, pid_file = paths.slapd_user, paths.runtime / "slapd/slapd.pid"
    return Service(
        name="slapd",
        description="people and groups of the cluster",
        argv=("slapd", "-d", "none", "-u", user, "-g", user, "-h", addresses(site, paths),
              "-f", str(paths.published / CONFIG)),
        ready=lambda: program_of(pid_file) == "slapd" and listening(paths),
        capabilities=("CAP_NET_BIND_SERVICE", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_DAC_OVERRIDE"),
        writes=(paths.directory, paths.runtime),
        pid_file=pid_file,
    )  # fmt: skip


def node_door(paths: Paths) -> Service:
    socket = paths.runtime / "node.sock"
    return Service(
        name="node-api",
        description="what agents on nodes talk to",
        argv=(sys.executable, "-m", "gunicorn", "--workers=1", "--threads=16", "--worker-class=gthread",
              "--no-control-socket", f"--bind=unix:{socket}", "--log-level=warning", "headnode.nodeapi:application()"),
        ready=socket.exists,
        writes=(paths.state, paths.runtime, paths.logs),
        environment={"HEADNODE_ROOT": str(paths.root)},
    )  # fmt: skip


def bmc(paths: Paths) -> Service:
    return Service(
        name="bmc",
        description="power, sensors and consoles of nodes through their BMCs",
        argv=(sys.executable, "-m", "headnode.bmcd"),
        ready=paths.bmc_socket.exists,
        writes=(paths.state, paths.runtime, paths.logs),
        environment={"HEADNODE_ROOT": str(paths.root)},
    )


def chronyd(paths: Paths) -> Service:
    pid_file = paths.runtime / "chrony/chronyd.pid"
    sets = clock.may_set_clock(paths, Path("/proc/self/status").read_text())
    return Service(
        name="chronyd",
        description="the cluster's clock",
        argv=("chronyd", "-d", "-u", paths.chrony_user, *(() if sets else ("-x",)),
              "-f", str(paths.published / clock.CONFIG)),
        ready=lambda: program_of(pid_file) == "chronyd",
        capabilities=("CAP_SYS_TIME", "CAP_NET_BIND_SERVICE", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN",
                      "CAP_DAC_OVERRIDE"),
        writes=(paths.state, paths.runtime),
        pid_file=pid_file,
    )  # fmt: skip


def nfs(site: Site, paths: Paths) -> Service:
    pid_file, address = paths.runtime / "ganesha/ganesha.pid", str(shares.server_address(site))
    return Service(
        name="nfs",
        description="homes and shares for nodes",
        argv=("ganesha.nfsd", "-F", "-L", "STDERR", "-p", str(pid_file), "-f", str(paths.published / exports.CONFIG)),
        # It writes its process id long before it listens.
        ready=lambda: program_of(pid_file) == "ganesha.nfsd" and answers(address, exports.PORT),
        capabilities=("CAP_NET_BIND_SERVICE", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_DAC_OVERRIDE",
                      "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_MKNOD", "CAP_SYS_RESOURCE"),
        writes=(paths.state, paths.runtime),
        elsewhere=(Path("/run/ganesha"), *(paths.below_root(share.directory) for share in shares.served(site))),
        homes=True,
        pid_file=pid_file,
    )  # fmt: skip


def package_cache(site: Site, paths: Paths) -> Service:
    pid_file, address = paths.runtime / "packages/apt-cacher-ng.pid", str(site.provision.head)
    user = paths.package_cache_user
    return Service(
        name="package-cache",
        description="packages for nodes and image builds, fetched once",
        argv=("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--",
              "apt-cacher-ng", "-c", str((paths.published / packagecache.CONFIG).parent)),
        ready=lambda: program_of(pid_file) == "apt-cacher-ng" and answers(address, packagecache.PORT),
        capabilities=("CAP_SETUID", "CAP_SETGID", "CAP_CHOWN"),
        writes=(paths.state, paths.runtime, paths.logs),
        pid_file=pid_file,
    )  # fmt: skip


def people_door(site: Site, paths: Paths) -> Service:
    """One process: what it remembers of all nodes and of failed logins is then one memory."""
    secure: tuple[str, ...] = ()
    if site.web.encrypted:
        secure = (f"--certfile={certificate(site, paths)}", f"--keyfile={certificate_key(site, paths)}")
    # HTTPS holds for every socket of the process, so the local one is there only without it.
    local: tuple[str, ...] = () if site.web.encrypted else (f"--bind=unix:{paths.runtime / 'web.sock'}", "--umask=0177")
    return Service(
        name="web",
        description="pages and API for people",
        # Every open page holds a thread while it waits for news; headnode/door/live.py counts them.
        argv=(sys.executable, "-m", "gunicorn", "--workers=1", "--threads=288", "--worker-class=gthread",
              "--no-control-socket", f"--bind={site.web.listen}", *local, *secure, "--forwarded-allow-ips=",
              "--graceful-timeout=2", "--log-level=warning", "headnode.web.app:application()"),
        ready=lambda: answers(site.web.host, int(site.web.port)),
        writes=(paths.state, paths.runtime, paths.logs),
        environment={"HEADNODE_ROOT": str(paths.root)},
    )  # fmt: skip


def certificate(site: Site, paths: Paths) -> Path:
    return paths.root / site.web.certificate.lstrip("/") if site.web.certificate else paths.state / "web/web.crt"


def certificate_key(site: Site, paths: Paths) -> Path:
    return paths.root / site.web.key.lstrip("/") if site.web.key else paths.state / "web/web.key"


def reconcile(paths: Paths) -> Service:
    return Service(
        name="reconcile",
        description="records what nodes do, reloads services, closes discovery windows, looks for foreign DHCP",
        argv=(sys.executable, "-m", "headnode.reconcile"),
        ready=paths.control_socket.exists,
        capabilities=("CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_KILL", "CAP_CHOWN"),
        writes=(paths.state, paths.runtime, paths.logs),
        environment={"HEADNODE_ROOT": str(paths.root)},
    )


def program_of(pid_file: Path) -> str | None:
    """The name of the process that a pid file names, so that a reused number is never taken for ours."""
    pid = pid_in(pid_file)
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() if pid else None
    except OSError:
        return None


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def pid_in(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text().strip())
    except (OSError, ValueError):
        return None
