"""Fixtures that every test may use, and what a marker asks of the machine."""

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

GIVEN = init.Proposal("demo", "demo.lan", provision_interface="hnprov0", management_interface="hnmgmt0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew from what is rendered now")


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
