"""Installing on a real machine: in a Debian made for it, by 'make install' and as a package, upgraded and removed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from headnode import run
from headnode.inventory.engine import HEAD
from headnode.lab.stock import EPOCH, cached
from headnode.run import Completed
from images.bootstrap import root_file_system
from images.recipes import Recipe, in_order
from tests.images.cached import CACHE

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("mmdebstrap", "make", "dpkg-deb", "systemd-analyze", "systemctl", "unshare"),
    pytest.mark.timeout(900),
]
SOURCE = Path(__file__).parents[2]
PARTS = ("headnode", "pxe", "images", "ipmi", "templates", "packaging", "tests/install-packages", "Makefile", "LICENSE",
         "README.md", "setup.cfg", "pyproject.toml", "constraints.txt")  # fmt: skip
INIT = ("headnode", "init", "--yes", "--cluster", "demo", "--domain", "demo.lan",
        "--provision-interface", "hnprov0", "--management-interface", "hnmgmt0")  # fmt: skip
# What a machine's own housekeeping changes, and what the test brought along.
NOT_OURS = ("proc", "dev", "sys", "tmp", "root/headnode", "root/wheels", "var/lib/dpkg", "var/log/dpkg.log",
            "var/log/apt", "var/cache", "etc/machine-id")  # fmt: skip
OLDER = """
from pathlib import Path
from alembic import command
from headnode.inventory.engine import alembic_config, sqlite_engine, sqlite_url
engine = sqlite_engine(sqlite_url(Path("/var/lib/headnode/inventory.db")))
with engine.connect() as connection, connection.begin():
    config = alembic_config()
    config.attributes["connection"] = connection
    command.downgrade(config, "0001")
"""


class Machine:
    """A root directory with Debian in it; commands run there with /proc and /dev, which go away with them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *argv: str, check: bool = True, env: Mapping[str, str] = {}) -> Completed:
        enter = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        inside = {"PATH": path, "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **env}
        words = ["env", "-i", *(f"{key}={value}" for key, value in inside.items()), *argv]
        return run.run(["unshare", "--mount", "sh", "-c", enter, self.root, *words], check=check, timeout=600)

    def make(self, *targets: str) -> Completed:
        return self.run("make", "-C", "/root/headnode", *targets, env=OFFLINE)

    def snapshot(self) -> dict[str, tuple[int, int, str]]:
        """Every file that is not housekeeping: mode, size or number of entries below, and where a link points."""
        found = {}
        for at, directories, files in os.walk(self.root):
            here = Path(at).relative_to(self.root)
            directories[:] = [name for name in directories if str(here / name) not in NOT_OURS]
            for name in (*directories, *files):
                if str(here / name) in NOT_OURS or name == "__pycache__":
                    continue
                path = Path(at, name)
                status = path.lstat()
                size = status.st_size if path.is_file() and not path.is_symlink() else 0
                found[str(here / name)] = (status.st_mode, size, str(path.readlink()) if path.is_symlink() else "")
        return found

    def verify_units(self) -> None:
        """systemd's own judgement of what would be started at boot."""
        run.run(["systemctl", f"--root={self.root}", "enable", "headnode.target"])
        units = [path.name for path in (self.root / "etc/systemd/system").glob("headnode*")]
        assert {"headnode.target", "headnode-bmc.service", "headnode-reconcile.service"} <= {*units}
        said = run.run(["systemd-analyze", "verify", f"--root={self.root}", "--man=no", *units])
        assert "headnode" not in said.stderr + said.stdout


OFFLINE: Mapping[str, str] = {
    "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/root/wheels", "PIP_NO_CACHE_DIR": "1", "PIP_ROOT_USER_ACTION": "ignore",
}  # fmt: skip


def run_packages() -> Sequence[str]:
    said = run.run(["make", "--silent", "-C", SOURCE, "--eval=said: ; @echo $(RUN_PACKAGES)", "said"])
    return said.stdout.split()


def debian() -> Path:
    """The packages that Headnode needs, make, and systemd for its units; nothing of Headnode."""
    packages = in_order((*run_packages(), "make", "systemd"))
    without = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
    recipe = Recipe(os="debian", suite="bookworm", architecture="amd64", packages=packages, kernel="", without=without)

    def build(place: Path, log: Path) -> None:
        with (
            root_file_system(recipe, place, log, EPOCH, proxy=None, progress=lambda _: None) as stream,
            (place / "root.tar").open("wb") as file,
        ):
            shutil.copyfileobj(stream, file)

    return cached(CACHE, "debian", recipe, build) / "root.tar"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a checkout has, with the pages' scripts fetched."""
    if not (SOURCE / "headnode/web/static/vendor/htmx.min.js").exists():
        run.run([sys.executable, "-m", "headnode.web.vendor"], cwd=SOURCE, timeout=600)
    place = tmp_path_factory.mktemp("source")
    for part in PARTS:
        (place / part).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (SOURCE / part).is_dir() else shutil.copy2
        copy(SOURCE / part, place / part)
    return place


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """All Python packages as files: the machine under test is cut off from where they come from."""
    place = tmp_path_factory.mktemp("wheels")
    run.run(["/usr/bin/python3", "-m", "venv", place / "venv"])
    wanted = [f"{source}[postgresql]", "setuptools>=77"]
    run.run([place / "venv/bin/python", "-m", "pip", "wheel", "--quiet", "--constraint", source / "constraints.txt",
             "--wheel-dir", place / "files", *wanted], timeout=600)  # fmt: skip
    return place / "files"


@pytest.fixture
def machine(tmp_path: Path, source: Path, wheels: Path) -> Iterator[Machine]:
    root = tmp_path / "machine"
    root.mkdir()
    run.run(["tar", "--extract", "--numeric-owner", "--file", debian(), "--directory", root], timeout=300)
    shutil.copytree(source, root / "root/headnode")
    shutil.copytree(wheels, root / "root/wheels")
    yield Machine(root)
    shutil.rmtree(root)


def test_make_install_upgrades_and_goes_without_a_trace(machine: Machine) -> None:
    before = machine.snapshot()
    assert "Next: 'headnode init'" in machine.make("install").stdout
    assert machine.run("headnode", "--version").stdout.startswith("headnode ")
    machine.run(*INIT)
    machine.run("headnode", "service", "units", "--directory", "/etc/systemd/system")
    machine.verify_units()
    machine.run("headnode", "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes")

    # An older Headnode with an older database, a module that the newer one has no more, and a service likewise.
    machine.run("/opt/headnode/bin/python", "-c", OLDER)
    (stale,) = machine.root.glob("opt/headnode/lib/python3*/site-packages/headnode")
    (stale / "stale.py").touch()
    (machine.root / "etc/systemd/system/headnode-stale.service").write_text("[Service]\nExecStart=/bin/true\n")
    assert "has 1 node" in machine.make("install").stderr
    version = "import sqlite3; print(*sqlite3.connect(sys.argv[1]).execute('SELECT version_num FROM alembic_version'))"
    database = "/var/lib/headnode/inventory.db"
    assert HEAD in machine.run("/usr/bin/python3", "-c", f"import sys, {version[7:]}", database).stdout
    assert not (stale / "stale.py").exists()
    machine.verify_units()
    assert machine.run("headnode", "nodes", "-o", "name").stdout == "gpu01\n"

    machine.make("uninstall")
    left = {*machine.snapshot()} - {*before}
    assert {path.split("/")[1] for path in left} <= {"headnode", "lib", "log"}, "only what the site knows"
    assert {"etc/headnode/site.yaml", "etc/headnode/secret.key", database[1:]} <= left
    machine.make("uninstall", "PURGE=1")
    assert machine.snapshot() == before


def test_the_package_needs_nothing_but_its_dependencies(
    machine: Machine, wheels: Path, source: Path, tmp_path: Path
) -> None:
    before = machine.snapshot()
    env = {**os.environ, **OFFLINE, "PIP_FIND_LINKS": str(wheels)}
    subprocess.run(["make", "-C", source, "deb"], env=env, check=True, capture_output=True)
    (package,) = (source / "dist").glob("headnode_*.deb")
    (machine.root / "tmp/1.deb").write_bytes(package.read_bytes())
    shutil.rmtree(machine.root / "root/wheels")
    machine.run("dpkg", "--install", "/tmp/1.deb")
    machine.run(*INIT)
    machine.run("headnode", "service", "units", "--directory", "/etc/systemd/system")
    machine.verify_units()
    quarrel = machine.run("/root/headnode/packaging/install", check=False)
    assert (quarrel.returncode, "the Debian package headnode is installed" in quarrel.stderr) == (1, True)

    unpacked = tmp_path / "unpacked"
    run.run(["dpkg-deb", "--raw-extract", package, unpacked])
    control = unpacked / "DEBIAN/control"
    control.write_text(control.read_text().replace("Version: ", "Version: 9"))
    run.run(["dpkg-deb", "-Znone", "--build", unpacked, machine.root / "tmp/2.deb"])
    assert "Headnode is upgraded" in machine.run("dpkg", "--install", "/tmp/2.deb").stdout
    assert machine.run("headnode", "nodes", "-o", "json").stdout == "[]\n"

    machine.run("dpkg", "--remove", "headnode")
    assert not (machine.root / "usr/bin/headnode").exists()
    assert (machine.root / "etc/headnode/site.yaml").exists()
    machine.run("dpkg", "--purge", "headnode")
    assert machine.snapshot() == before
