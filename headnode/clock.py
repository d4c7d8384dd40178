"""The cluster's clock: chronyd's configuration, whether it may touch this machine's clock, and what it says."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import templates
from headnode import run
from headnode.errors import HeadnodeError, ProgramFailed, PublishFailed
from headnode.model import File, Files, Node
from headnode.paths import Paths
from headnode.site import Site

CONFIG = "chrony/chrony.conf"
CAP_SYS_TIME = 25


class Clock:
    name = "chrony"

    def __init__(self, places: Paths) -> None:
        self.places = places

    def site_files(self, site: Site) -> Files:
        text = templates.render(
            "chrony/chrony.conf.j2", site=site, places=self.places, made_from=f"site {site.cluster}"
        )
        return {CONFIG: File(text.encode())}

    def node_files(self, site: Site, node: Node) -> Files:
        return {}

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        return ask_chronyd(staged / CONFIG) if CONFIG in changed else []


def ask_chronyd(config: Path) -> list[str]:
    """`chronyd -p` reads its configuration, prints it, and does nothing else."""
    if not run.have("chronyd"):
        return ["chronyd is not installed here, so its configuration was not checked"]
    try:
        run.run(["chronyd", "-p", "-f", config])
    except ProgramFailed as error:
        said = (error.stderr.strip() or error.message).replace(str(config), CONFIG)
        raise PublishFailed(f"chronyd refuses {CONFIG}: {said}; what was live before still is") from error
    return []


def may_set_clock(places: Paths, status: str) -> bool:
    """Whether chronyd may set this machine's clock, by /proc/self/status.

    A lab, which is any place but /, borrows the clock of the machine it runs on and must not move it: network
    namespaces share one clock. A container without the capability cannot set it, and chronyd would refuse to start.
    """
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return places.root == Path("/") and bool(int(effective, 16) >> CAP_SYS_TIME & 1)


def prepare(places: Paths) -> None:
    """chronyd refuses a directory for its socket that others could write to."""
    import shutil

    for directory, mode in ((places.runtime / "chrony", 0o750), (places.state / "chrony", 0o750)):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(mode)
        shutil.chown(directory, places.chrony_user, places.chrony_user)


@dataclass(frozen=True)
class Tracking:
    """What a chronyd says of its own clock."""

    reference: str
    stratum: int
    offset_ms: float
    synchronised: bool


def tracking(places: Paths) -> Tracking | None:
    """The head node's own clock, if its chronyd runs."""
    socket = places.runtime / "chrony/chronyd.sock"
    try:
        said = run.run(["chronyc", "-n", "-c", "-h", socket, "tracking"], timeout=10)
    except HeadnodeError:
        return None
    return parse_tracking(said.stdout)


def parse_tracking(line: str) -> Tracking | None:
    """One line of `chronyc -c tracking`; its fields are in the order of the report for people."""
    words = line.strip().split(",")
    try:
        address, stratum, offset, leap = words[1] or words[0], int(words[2]), float(words[4]), words[13]
    except (IndexError, ValueError):
        return None
    own = words[0] == "7F7F0101"
    return Tracking("its own clock" if own else address, stratum, offset * 1000, leap != "Not synchronised")
