"""A lab per test, with a name of its own, whose logs are shown when the test fails."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.lab.lab import Lab, lab, sweep_dead

# Their simulated BMCs are on fixed addresses of this machine's loopback network.
ON_LOOPBACK = ("tests.integration.bmc_lab", "tests.integration.bmc_site")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers a file stays together, and so do all files that would take one another's addresses."""
    for item in items:
        module = item.getparent(pytest.Module)
        if module is not None and "integration" in item.path.parts:
            found = (getattr(value, "__module__", "") for value in vars(module.obj).values())
            group = "loopback" if any(name in ON_LOOPBACK for name in found) else item.path.name
            item.add_marker(pytest.mark.xdist_group(group))


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
