"""These facts, exactly these commands; or exactly this sentence.

After a wanted change: `pytest tests/images --update-golden`, then read the difference.
"""

import re
from pathlib import Path

import pytest

from tests.images.support import CASES, expectation, outcome, read

FILES = sorted(CASES.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_facts_give_exactly_these_commands(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    case = read(path)
    found = outcome(case)
    if request.config.getoption("--update-golden"):
        path.write_text(text[: re.search(r"^expect:", text, re.MULTILINE).start()] + expectation(found))  # type: ignore[union-attr]
        return
    assert found == case["expect"]
    assert ("refused" in found) == path.stem.startswith(("refuse-", "sizes-one-too-many"))


def test_there_are_enough_cases() -> None:
    assert len(FILES) >= 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_refusal_is_one_sentence(path: Path) -> None:
    found = read(path)["expect"]
    if "refused" in found:
        assert "\n" not in found["refused"]
        assert not found["refused"].endswith(".")
