"""Fixtures that every test may use, and what a marker asks of the machine."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.paths import Paths
from headnode.site import Site
from headnode.workflows import init
from headnode.workflows.context import Context
from tests.support import Postgres

pytest_plugins = ["tests.markers"]

NEIGHBOURS = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
ENOUGH = 16_384
BEFORE = pytest.StashKey[str]()

GIVEN = init.Proposal("demo", "demo.lan", provision_interface="hnprov0", management_interface="hnmgmt0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew from what is rendered now")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Room for the neighbours of all emulated networks together: so does the kernel count them, whoever's they are.

    A thousand nodes in one test, and another test's DHCP server cannot send an offer. Set back at the end, by the
    process that all others work for.
    """
    if not hasattr(session.config, "workerinput") and os.access(NEIGHBOURS, os.W_OK):
        session.config.stash[BEFORE] = NEIGHBOURS.read_text()
        NEIGHBOURS.write_text(str(max(int(session.config.stash[BEFORE]), ENOUGH)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if BEFORE in session.config.stash:
        NEIGHBOURS.write_text(session.config.stash[BEFORE])


@pytest.fixture(autouse=True)
def _no_site_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADNODE_ROOT", raising=False)


@pytest.fixture(scope="session")
def _made_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site") / "root"
    init.create(Paths(made), GIVEN)
    return made


@pytest.fixture
def root(_made_root: Path, tmp_path: Path) -> Path:
    """A HEADNODE_ROOT on which `headnode init` has been run."""
    return Path(shutil.copytree(_made_root, tmp_path / "root"))


@pytest.fixture
def context(root: Path) -> Iterator[Context]:
    made = Context(Paths(root), actor="tester", cause="a test")
    yield made
    made.close()


@pytest.fixture
def site(context: Context) -> Site:
    """The site that `headnode init` writes: profiles cpu, gpu and login, networks provision and management."""
    return context.site


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL server of our own, gone when the tests are."""
    with Postgres.started() as server:
        yield server
