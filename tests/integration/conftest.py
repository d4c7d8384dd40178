"""A lab per test, with a name of its own, whose logs are shown when the test fails."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.lab.lab import Lab, lab, sweep_dead
from tests.web.machines import fetch_browser

# Their simulated BMCs have fixed addresses on the loopback network.
ON_LOOPBACK = ("tests.integration.bmc_lab", "tests.integration.bmc_site", "tests.web.machines")


@pytest.fixture(scope="module", autouse=True)
def own_loopback(request: pytest.FixtureRequest) -> Iterator[None]:
    """A loopback network for each file that uses fixed addresses of it: whoever tests beside us has the same."""
    found = {getattr(value, "__module__", "") for value in vars(request.module).values()}
    if os.geteuid() != 0 or found.isdisjoint(ON_LOOPBACK):
        yield
        return
    if "tests.web.machines" in found:
        # What is fetched is fetched before the way to it is gone.
        fetch_browser()
    with lab(f"o{os.getpid():x}") as own, own.host("loopback").inside():
        yield


@pytest.fixture(scope="session", autouse=True)
def no_leftovers() -> None:
    """Labs of earlier runs that were killed; those of people who work beside us are alive and stay."""
    if os.geteuid() == 0:
        sweep_dead()


@pytest.fixture
def lab_name() -> str:
    return f"t{os.getpid():x}"


@pytest.fixture
def running_lab(lab_name: str, tmp_path: Path) -> Iterator[Lab]:
    with lab(lab_name, logs=tmp_path) as running:
        yield running
    for log in sorted(tmp_path.glob("*.log")):
        # Captured by pytest, and so printed only beside a failure.
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}")  # noqa: T201
