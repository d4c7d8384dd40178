"""The only module that starts processes.

Commands are lists, never shell strings. Secrets go in through standard input or files, never through
arguments, so the command can be logged as it is. Standard error is kept for the message of a failure.
"""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from headnode.errors import ProgramFailed, ProgramMissing

PIPE = subprocess.PIPE
Running = subprocess.Popen[bytes]
# The kernel ends the whole family when its first process ends, and that one when we end: also after kill -9, nothing
# goes on in the background, and mounts vanish with their namespace.
FAMILY = (
    "setpriv", "--pdeathsig", "KILL", "--",
    "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--",
)  # fmt: skip


@dataclass(frozen=True)
class Completed:
    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str | Path],
    *,
    input: str | None = None,
    timeout: float | None = 60,
    check: bool = True,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """Run a command to its end and return what it said; with `check`, a non-zero exit is ProgramFailed."""
    command = words(argv)
    pipe = subprocess.PIPE
    process = start(
        command, stdin=subprocess.DEVNULL if input is None else pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env
    )
    with process:
        try:
            out, err = process.communicate(None if input is None else input.encode(), timeout=timeout)
        except subprocess.TimeoutExpired as error:
            kill_all(process)
            raise ProgramFailed(
                f"'{shlex.join(command)}' was stopped after {timeout:g} seconds without an answer", returncode=-1
            ) from error
        except BaseException:
            kill_all(process)
            raise
    log_command(command, process.returncode)
    result = Completed(command, process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    if check and result.returncode != 0:
        raise failure(result)
    return result


def kill_all(process: "subprocess.Popen[bytes]") -> None:
    """The program and what it has started: one that outlives it would keep us waiting at its end of the pipe."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def spawn(
    argv: Sequence[str | Path],
    *,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.DEVNULL,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Start a long-running program in a session of its own, so that our Ctrl-C is not also its Ctrl-C."""
    command = words(argv)
    process = start(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, pass_fds=tuple(pass_fds))
    log_command(command, None)
    return process


def start(
    command: tuple[str, ...], *, cwd: Path | None, env: Mapping[str, str] | None, **more: Any
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(command, cwd=cwd, env=environment(env), start_new_session=True, **more)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and (cwd is None or cwd.is_dir()):
            raise ProgramMissing(command[0]) from error
        why = error.strerror if isinstance(error, OSError) else error
        raise ProgramFailed(f"'{shlex.join(command)}' could not be started: {why}", returncode=-1) from error


@contextmanager
def contained(
    argv: Sequence[str | Path],
    *,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.DEVNULL,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """A program in namespaces of its own that ends with this block, or with us, whichever comes first; needs root.

    "Us" is the thread that calls this: the kernel counts by threads, so call it from one that stays.
    """
    if find(str(argv[0])) is None:
        raise ProgramMissing(str(argv[0]))
    process = spawn([*FAMILY, *words(argv)], stdin=stdin, stdout=stdout, stderr=stderr, env=env)
    try:
        yield process
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def become(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> NoReturn:
    """Go on as another program, with this terminal; does not return."""
    command = words(argv)
    log_command(command, None)
    try:
        os.execve(command[0], command, environment(env))  # noqa: S606 - a list of words, no shell
    except OSError as error:
        raise ProgramMissing(command[0]) from error


def have(program: str) -> bool:
    return find(program) is not None


def find(program: str) -> str | None:
    """Where a program is; administrators' PATH often lacks the sbin directories that our programs live in."""
    return shutil.which(program, path=search_path())


def failure(result: Completed) -> ProgramFailed:
    said = (result.stderr.strip() or result.stdout.strip())[-2000:]
    return ProgramFailed(
        f"'{shlex.join(result.argv)}' failed with exit code {result.returncode}" + (f": {said}" if said else ""),
        returncode=result.returncode,
        stderr=result.stderr,
    )


def words(argv: Sequence[str | Path]) -> tuple[str, ...]:
    command = tuple(str(word) for word in argv)
    return (find(command[0]) or command[0], *command[1:])


def search_path() -> str:
    return os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/local/sbin:/usr/sbin:/sbin"


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8", **(extra or {})}


def log_command(command: Sequence[str], returncode: int | None) -> None:
    from headnode.log import logger  # here, so that `headnode --help` does not pay for it

    logger("headnode.run").debug("ran", command=shlex.join(command), returncode=returncode)
