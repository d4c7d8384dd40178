"""What a marker asks of the machine."""

import os

import pytest

from headnode import run


def missing_requirement(item: pytest.Item) -> str | None:
    missing = [
        f"the program {name}" for mark in item.iter_markers("program") for name in mark.args if not run.have(name)
    ]
    if any(item.iter_markers("root")) and os.geteuid() != 0:
        missing.append("to be root")
    return f"this test needs {' and '.join(missing)}" if missing else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if (reason := missing_requirement(item)) is None:
        return
    # What is skipped without a word is never missed: in CI it is a failure.
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
