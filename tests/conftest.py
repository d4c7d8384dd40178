"""Markers that say what a test needs. In CI a missing requirement is a failure, never a silent skip."""

import os

import pytest

from headnode.run import have


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew from what is rendered now")


def missing_requirement(item: pytest.Item) -> str | None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        return "needs to be root"
    wanted = [str(name) for marker in item.iter_markers("program") for name in marker.args]
    absent = [name for name in wanted if not have(name)]
    return f"needs {', '.join(absent)}" if absent else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if (missing := missing_requirement(item)) is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{missing}, and in CI that is a failure", pytrace=False)
    pytest.skip(missing)
