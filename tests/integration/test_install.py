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
PARTS = ("headnode", "pxe", "images", "ipmi", "templates", "tests/install-packages", "Makefile", "LICENSE",
         "README.md", "setup.cfg", "pyproject.toml", "constraints.txt")  # fmt: skip
INIT = ("headnode", "init", "--yes", "--cluster", "demo", "--domain", "demo.lan",
        "--provision-interface", "hnprov0", "--management-interface", "hnmgmt0")  # fmt: skip
# What a machine's own housekeeping changes, and what the test brought along.
NOT_OURS = ("proc", "dev", "sys", "tmp", "root/headnode", "root/wheels", "var/lib/dpkg", "var/log/dpkg.log",
            "var/log/apt", "var/cache", "etc/machine-id")  # fmt: skip
# The same nodes as the first version of the schema could hold them: not every migration has a way back.
OLDER = """
import sqlite3
from pathlib import Path
from alembic import command
from headnode.inventory.engine import alembic_config, sqlite_engine, sqlite_url
database = Path("/var/lib/headnode/inventory.db")
newer = database.rename("/tmp/newer.db")
with sqlite_engine(sqlite_url(database)).connect() as connection, connection.begin():
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "0001")
with sqlite3.connect(database) as both:
    both.execute("ATTACH ? AS newer", (str(newer),))
    for (table,) in both.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
        asked = [both.execute(f"PRAGMA {which}.table_info({table})") for which in ("main", "newer")]
        then, now = ({row[1] for row in rows} for rows in asked)
        if table != "alembic_version" and "sqlite" not in table:
            columns = ", ".join(f'"{name}"' for name in then & now)
            both.execute(f"INSERT OR REPLACE INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}")
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
        """Every file that is not housekeeping: mode, size, and where a link points."""
        found = {}
        for at, directories, files in os.walk(self.root):
            here = Path(at).relative_to(self.root)
            # Debian's own Python writes byte code where it can; below /opt/headnode a directory that stays is seen.
            directories[:] = [n for n in directories if str(here / n) not in NOT_OURS and n != "__pycache__"]
            for name in (*directories, *files):
                if str(here / name) in NOT_OURS:
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


def packaged_files(source: Path) -> list[Path]:
    """All that the packages have, of which an installation must not lack any; what installs it is not part of it."""
    found = [path for part in PARTS[:5] for path in (source / part).rglob("*") if path.is_file()]
    return [path.relative_to(source) for path in found if not {"__pycache__", "packaging"} & {*path.parts}]


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


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, source: Path, wheels: Path) -> Iterator[Machine]:
    """One for both tests: each has to leave it as it was."""
    root = tmp_path_factory.mktemp("machine")
    run.run(["tar", "--extract", "--numeric-owner", "--file", debian(), "--directory", root], timeout=300)
    shutil.copytree(source, root / "root/headnode")
    shutil.copytree(wheels, root / "root/wheels")
    yield Machine(root)
    shutil.rmtree(root)


def test_make_install_upgrades_and_goes_without_a_trace(machine: Machine) -> None:
    before = machine.snapshot()
    assert "Next: 'headnode init'" in machine.make("install").stdout
    assert machine.run("headnode", "--version").stdout.startswith("headnode ")
    (home,) = machine.root.glob("opt/headnode/lib/python3*/site-packages")
    assert [path for path in packaged_files(machine.root / "root/headnode") if not (home / path).exists()] == []
    machine.run(*INIT)
    machine.run("headnode", "service", "units", "--directory", "/etc/systemd/system")
    machine.verify_units()
    machine.run("headnode", "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes")

    # An older Headnode with an older database, a module that the newer one has no more, and a service likewise.
    machine.run("/opt/headnode/bin/python", "-c", OLDER)
    (home / "headnode/stale.py").touch()
    (machine.root / "etc/systemd/system/headnode-stale.service").write_text("[Service]\nExecStart=/bin/true\n")
    assert "has 1 node" in machine.make("install").stderr
    version = "import sqlite3; print(*sqlite3.connect(sys.argv[1]).execute('SELECT version_num FROM alembic_version'))"
    database = "/var/lib/headnode/inventory.db"
    assert HEAD in machine.run("/usr/bin/python3", "-c", f"import sys, {version[7:]}", database).stdout
    assert not (home / "headnode/stale.py").exists()
    machine.verify_units()
    assert machine.run("headnode", "nodes", "-o", "name").stdout == "gpu01\n"

    machine.make("uninstall")
    left = {*machine.snapshot()} - {*before}
    assert {path.split("/")[1] for path in left} <= {"headnode", "lib", "log"}, "only what the site knows"
    assert {"etc/headnode/site.yaml", "etc/headnode/secret.key", database[1:]} <= left
    machine.make("uninstall", "PURGE=1")
    assert machine.snapshot() == before


def test_the_package_needs_nothing_but_its_dependencies(machine: Machine, wheels: Path, source: Path) -> None:
    before = machine.snapshot()
    env = {**os.environ, **OFFLINE, "PIP_FIND_LINKS": str(wheels)}
    subprocess.run(["make", "-C", source, "deb"], env=env, check=True, capture_output=True)
    (package,) = (source / "dist").glob("headnode_*.deb")
    shutil.copy(package, machine.root / "tmp/headnode.deb")
    shutil.rmtree(machine.root / "root/wheels")
    machine.run("dpkg", "--install", "/tmp/headnode.deb")
    machine.run(*INIT)
    machine.run("headnode", "service", "units", "--directory", "/etc/systemd/system")
    machine.verify_units()
    quarrel = machine.run("/root/headnode/headnode/packaging/install", check=False)
    assert (quarrel.returncode, "the Debian package headnode is installed" in quarrel.stderr) == (1, True)

    # For dpkg the same package once more is an upgrade like any other.
    (stale,) = machine.root.glob("opt/headnode/lib/python3*/site-packages/headnode/__init__.py")
    stale.write_text("raise SystemExit('old')\n")
    assert "Headnode is upgraded" in machine.run("dpkg", "--install", "/tmp/headnode.deb").stdout
    assert machine.run("headnode", "nodes", "-o", "json").stdout == "[]\n"

    machine.run("dpkg", "--remove", "headnode")
    assert not (machine.root / "usr/bin/headnode").exists()
    assert (machine.root / "etc/headnode/site.yaml").exists()
    machine.run("dpkg", "--purge", "headnode")
    assert machine.snapshot() == before
