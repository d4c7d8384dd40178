"""A requirement that is missing is a skip on a desk and a failure in CI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEST = "import pytest\n@pytest.mark.program('python3', 'no-such-program')\ndef test_it(): pass\n"


@pytest.mark.parametrize(("ci", "outcome", "code"), [("", "1 skipped", 0), ("true", "1 error", 1)])
def test_a_missing_program(tmp_path: Path, ci: str, outcome: str, code: int) -> None:
    root = Path(__file__).parents[1]
    shutil.copy(root / "pyproject.toml", tmp_path)
    (tmp_path / "test_it.py").write_text(TEST)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.markers", str(tmp_path)]
    done = subprocess.run(argv, env={**os.environ, "CI": ci}, capture_output=True, text=True, check=False, cwd=root)
    assert outcome in done.stdout
    assert "needs the program no-such-program" in done.stdout
    assert done.returncode == code
