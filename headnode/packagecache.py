"""The package cache: apt-cacher-ng's configuration, and where nodes and builds find it."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import templates
from headnode import run
from headnode.errors import ProgramFailed, PublishFailed
from headnode.machine import answers
from headnode.model import File, Files, Node
from headnode.paths import Paths
from headnode.site import Site

CONFIG = "apt-cacher-ng/acng.conf"
PORT = 3142
CHECKER = "/usr/lib/apt-cacher-ng/acngtool"
# The distributions' own public archives.
ARCHIVES = (
    ("debian", "http://deb.debian.org/debian"),
    ("debian-security", "http://deb.debian.org/debian-security"),
    ("debian-security-old", "http://security.debian.org/debian-security"),
    ("ubuntu", "http://archive.ubuntu.com/ubuntu"),
    ("ubuntu-security", "http://security.ubuntu.com/ubuntu"),
    ("ubuntu-ports", "http://ports.ubuntu.com/ubuntu-ports"),
)
TUNNELS = (r"developer\.download\.nvidia\.com", r"nvidia\.github\.io", r"download\.docker\.com")


class PackageCache:
    name = "apt-cacher-ng"

    def __init__(self, places: Paths) -> None:
        self.places = places

    def site_files(self, site: Site) -> Files:
        if not wanted(site):
            return {}
        text = templates.render(
            "apt-cacher-ng/acng.conf.j2", places=self.places, net=site.provision, port=PORT,
            proxy=site.packages.http_proxy, archives=archives(site), ports=ports(site), tunnels=TUNNELS,
            made_from=f"site {site.cluster}",
        )  # fmt: skip
        return {CONFIG: File(text.encode())}

    def node_files(self, site: Site, node: Node) -> Files:
        return {}

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        found = CONFIG in changed and (staged / CONFIG).exists()
        return ask_cacher((staged / CONFIG).parent) if found else []


def wanted(site: Site) -> bool:
    # What was carried here is served by nginx, and there is nothing else to fetch.
    return site.packages.cache and site.packages.proxy is None and site.packages.mirror != "head"


def archives(site: Site) -> list[tuple[str, str]]:
    """What may be fetched through it; a site's own mirror comes before the public archives."""
    mirror = site.packages.mirror
    own = [("site", mirror.rstrip("/"))] if mirror and mirror.startswith("http://") else []
    return [*own, *((name, archive) for name, archive in ARCHIVES if archive != (own[0][1] if own else None))]


def ports(site: Site) -> list[int]:
    return sorted({urlsplit(archive).port or 80 for _, archive in archives(site)})


def ask_cacher(directory: Path) -> list[str]:
    if not Path(CHECKER).exists():
        return ["apt-cacher-ng is not installed here, so its configuration was not checked"]
    try:
        run.run([CHECKER, "cfgdump", "-c", directory])
    except ProgramFailed as error:
        said = " ".join(error.stderr.split()) or error.message
        raise PublishFailed(f"apt-cacher-ng refuses {CONFIG}: {said}; what was live before still is") from error
    return []


def proxy_for_nodes(site: Site) -> str | None:
    """What a node's apt goes through: the cache that the site names, the head node's own, or none."""
    return site.packages.proxy or (f"http://{site.provision.head}:{PORT}" if wanted(site) else None)


def mirror_for_nodes(site: Site, distribution: str) -> str | None:
    """The archive that nodes install from, when it is not the distribution's own."""
    mirror = site.packages.mirror
    return f"http://{site.provision.head}/mirror/{distribution}" if mirror == "head" else mirror


def proxy_for_builds(site: Site) -> str | None:
    """The same for image builds, as long as somebody answers there; otherwise this machine's own way out."""
    if site.packages.proxy or not wanted(site) or not answers(str(site.provision.head), PORT):
        return site.packages.proxy
    return proxy_for_nodes(site)


def prepare(places: Paths) -> None:
    import shutil

    for directory in (places.state / "packages", places.logs / "packages", places.runtime / "packages"):
        directory.mkdir(parents=True, exist_ok=True)
        shutil.chown(directory, places.package_cache_user, places.package_cache_user)


def expire(places: Paths, days: int, now: float) -> list[Path]:
    """Forget packages that nobody has asked for in that time; apt-cacher-ng fetches again what it misses.

    Its own expiry would need its maintenance pages, and those would be open to every node.
    """
    cache = places.state / "packages"
    oldest = now - days * 86_400
    gone = []
    for path in sorted(cache.rglob("*.deb")):
        status = path.stat()
        if max(status.st_atime, status.st_mtime) < oldest:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.head").unlink(missing_ok=True)
            gone.append(path)
    return gone
