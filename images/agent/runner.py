"""The only place of the agent that starts programs: argument lists, no shell, output kept."""

import os
import shlex
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from .errors import StepFailed

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
}
PIPE = subprocess.PIPE
Process = subprocess.Popen[bytes]
# As much as an unprivileged pipe may hold: an image passes two of them, and fewer, larger pieces cost less.
PIPE_SIZE = 1 << 20
NOT_FOUND = 127
LONGEST = 64 << 10


@dataclass(frozen=True)
class Output:
    code: int
    stdout: str
    stderr: str


def run(argv: Sequence[str], *, text: str | None = None, timeout: float | None = 3600) -> Output:
    """Run to the end; a program that is missing or too slow is an exit code like any other."""
    try:
        done = subprocess.run(
            list(argv), input=(text or "").encode(), capture_output=True, timeout=timeout, env=ENVIRONMENT, check=False
        )
    except OSError as error:
        return Output(NOT_FOUND, "", f"{argv[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Output(-1, "", f"{argv[0]} did not end within {timeout:g} seconds")
    return Output(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def ask(argv: Sequence[str], *, timeout: float = 60) -> str:
    """What a program says about this machine; nothing when it cannot say."""
    output = run(argv, timeout=timeout)
    return output.stdout if output.code == 0 else ""


def start(argv: Sequence[str], *, stdin: "IO[bytes] | int | None" = None, stdout: "IO[bytes] | int | None" = None,
          stderr: "IO[bytes] | int | None" = None) -> Process:  # fmt: skip
    try:
        return subprocess.Popen(
            list(argv), stdin=stdin, stdout=stdout, stderr=stderr, env=ENVIRONMENT, pipesize=PIPE_SIZE
        )
    except OSError as error:
        raise StepFailed(f"{argv[0]} could not be started: {error.strerror}") from error


def must(argv: Sequence[str], *, text: str | None = None, log: "Log | None" = None) -> Output:
    """Run a program of the plan; when it fails, its last words are the reason."""
    output = run(argv, text=text)
    if log is not None:
        log.write(f"$ {shlex.join(argv)}\n{(output.stdout + output.stderr)[-LONGEST:]}")
    if output.code != 0:
        raise StepFailed(f"'{shlex.join(argv)}' failed with exit code {output.code}: {last_words(output)}")
    return output


def last_words(output: Output, most: int = 500) -> str:
    lines = (output.stderr.strip() or output.stdout.strip()).splitlines()
    return " / ".join(line.strip() for line in lines[-3:])[-most:] or "it said nothing"


class Log:
    """What happened, kept until the reporter sends it, and shown on the console at once."""

    def __init__(self, console: "IO[str] | None" = None, most: int = 1 << 20) -> None:
        self._console = console
        self._most = most
        self._text = ""
        self._lock = threading.Lock()
        self.tail = ""

    def write(self, text: str) -> None:
        line = text if text.endswith("\n") else text + "\n"
        with self._lock:
            self._text = (self._text + line)[-self._most :]
            self.tail = (self.tail + line)[-LONGEST:]
        if self._console is not None:
            self._console.write(line)
            self._console.flush()

    def take(self) -> str:
        with self._lock:
            text, self._text = self._text, ""
        return text

    def give_back(self, text: str) -> None:
        """It could not be sent: next time then."""
        with self._lock:
            self._text = (text + self._text)[-self._most :]


def sync() -> None:
    os.sync()
