"""The nodes' HTTP server: static files found by the asker's own address, and the way to the agent's interface."""

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import templates
from headnode import run
from headnode.errors import ProgramFailed, PublishFailed
from headnode.model import File, Files, Node
from headnode.paths import Paths
from headnode.site import Site

CONFIG = "nginx/nginx.conf"


class Nginx:
    name = "nginx"

    def __init__(self, places: Paths) -> None:
        self.places = places

    def site_files(self, site: Site) -> Files:
        made_from = f"site {site.cluster}"
        config = templates.render("nginx/nginx.conf.j2", net=site.provision, places=self.places, made_from=made_from)
        return {CONFIG: File(config.encode())}

    def node_files(self, site: Site, node: Node) -> Files:
        return {}

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        return ask_nginx((staged / CONFIG).read_text(), self.places) if CONFIG in changed else []


def ask_nginx(config: str, places: Paths) -> list[str]:
    """`nginx -t` binds, writes and creates what it reads about, so it is given a copy that points nowhere else."""
    if not run.have("nginx"):
        return ["nginx is not installed here, so its configuration was not checked"]
    with tempfile.TemporaryDirectory() as scratch:
        harmless = re.sub(r"listen [^;]*?( default_server)?;", rf"listen unix:{scratch}/http.sock\1;", config)
        for directory in (places.runtime / "nginx", places.logs):
            harmless = harmless.replace(f"{directory}/", f"{scratch}/")
        (Path(scratch) / "nginx.conf").write_text(harmless)
        try:
            run.run(["nginx", "-t", "-q", "-e", "stderr", "-p", scratch, "-c", f"{scratch}/nginx.conf"])
        except ProgramFailed as error:
            said = (error.stderr.strip() or error.message).replace(f"{scratch}/nginx.conf", CONFIG)
            raise PublishFailed(f"nginx refuses {CONFIG}: {said}; what was live before still is") from error
    return []


def prepare(places: Paths) -> None:
    for directory in (places.runtime / "nginx", places.logs, places.state / "ramdisk", places.state / "images"):
        directory.mkdir(parents=True, exist_ok=True)
