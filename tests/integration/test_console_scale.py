"""The console benchmark checks itself; a small run of it belongs to every test run."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "consoles.py"


@pytest.mark.integration
@pytest.mark.root
@pytest.mark.program("ipmi_sim")
def test_many_consoles_lose_no_byte_and_survive_a_kill() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH), "--consoles", "40", "--seconds", "4"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 of 40 recordings have every byte" in done.stdout
    assert "gap marked in 40 of 40" in done.stdout
