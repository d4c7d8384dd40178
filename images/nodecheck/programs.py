"""Asking programs. A program that hangs in the kernel cannot be killed, so it is left behind after its time."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from shutil import which


@dataclass(frozen=True)
class Said:
    # None: it is not installed, or did not end in time.
    code: int | None
    text: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0


def ask(argv: Sequence[str], timeout: float = 60.0) -> Said:
    if which(argv[0]) is None:
        return Said(None, error=f"{argv[0]} is not installed")
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            # Whoever waits for a dead server waits for ever: do not wait with it.
            process.returncode = -9
            return Said(None, error=f"{argv[0]} did not answer within {timeout:g} seconds")
    return Said(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def installed(program: str) -> bool:
    return which(program) is not None
