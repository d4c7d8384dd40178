"""What tests share: running commands, making nodes, and a PostgreSQL server."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import click
import sqlalchemy

from headnode.cli import cli, main
from headnode.model import BmcAccess, Event, Nic, Node
from headnode.workflows.sheet import Row

HEADNODE = (sys.executable, "-m", "headnode")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def headnode(root: Path, *args: str, stdin: bytes = b"", typed: bytes | None = None) -> Result:
    """A command in this process, through main(): what a person would see, and the exit code.

    Its input is a file (`stdin`), or what a person types at a terminal (`typed`).
    """
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    source = io.TextIOWrapper(io.BytesIO(stdin)) if typed is None else Terminal(io.BytesIO(typed))
    code = 0
    with (
        mock.patch.object(sys, "argv", ["headnode", "--root", str(root), *args]),
        mock.patch.object(sys, "stdin", source),
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
    ):
        try:
            main()
        except SystemExit as exit:
            code = int(exit.code or 0)
    result = Result(code, text_of(out), text_of(err))
    assert "internal error" not in result.err, result.err
    return result


def text_of(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def command_of(words: Sequence[str]) -> click.Command:
    """The command that these words are for."""
    found: click.Command = cli
    for word in words:
        if not isinstance(found, click.Group):
            break
        found = found.get_command(click.Context(found), word) or found
    return found


def refused_by_both(root: Path, *words: str) -> tuple[int, list[str]]:
    """The exit code and the words of a refusal, which a dry run has to share with the real run."""
    real = ["--yes"] if any(parameter.name == "yes" for parameter in command_of(words).params) else []
    found = [headnode(root, *words, *mode) for mode in (["--dry-run"], real)]
    # Not the plan that a dry run may show first.
    dry, done = ((one.code, refusal(one.err)) for one in found)
    assert dry == done
    return dry


def refusal(said: str) -> list[str]:
    lines = said.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith(("headnode: ", "Error: "))), None)
    assert first is not None, said
    return lines[first:]


def process(
    root: Path, *args: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """The same command as a process of its own."""
    return subprocess.run(
        [*HEADNODE, *args],
        input=stdin,
        capture_output=True,
        env={**os.environ, "HEADNODE_ROOT": str(root), **(env or {})},
        timeout=120,
        check=False,
    )


def mac(number: int) -> str:
    return f"52:54:00:aa:{number >> 8:02x}:{number & 255:02x}"


def bmc(number: int) -> str:
    return f"10.21.{number >> 8}.{number & 255}"


def csv_of(numbers: Sequence[int], profile: str = "gpu") -> str:
    lines = [f"gpu{n:04},{mac(n)},{bmc(n)},{profile},r{n // 40},{n % 40 + 1}" for n in numbers]
    return "\n".join(["name,mac,bmc,profile,rack,position", *lines]) + "\n"


def row(where: str = "command line", /, **values: str) -> Row:
    return Row(where, values)


def row_of(number: int, **more: str) -> Row:
    return row(name=f"gpu{number:02}", mac=mac(number), bmc=bmc(number), profile="gpu", **more)


def node_of(number: int, address: str | None = None) -> Node:
    nic = Nic(mac(number), address=address or f"10.20.1.{number}")
    return Node(f"gpu{number:02}", "gpu", (nic,), BmcAccess(bmc(number)))


def event_about(node: str) -> Event:
    return Event("test", "it happened", "tester", "a test", node)


def tree(directory: Path) -> dict[str, tuple[bytes, int, int, int]]:
    """Every file below a directory: content, mode, inode and time of change."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(directory))] = (
                path.read_bytes(),
                status.st_mode & 0o7777,
                status.st_ino,
                status.st_mtime_ns,
            )
    return found


def problems_are_lines(message: str) -> None:
    """One problem, one line, nothing that could confuse a terminal."""
    assert message
    for line in message.split("\n"):
        assert line
        assert line.isprintable(), line


@dataclass(frozen=True)
class Postgres:
    """A server without TCP, reached through a socket in its own directory."""

    directory: Path

    @classmethod
    @contextlib.contextmanager
    def started(cls) -> Iterator["Postgres"]:
        # Short, because the path of a socket may have no more than 107 bytes.
        directory = Path(tempfile.mkdtemp(prefix="hnpg"))
        try:
            if os.geteuid() == 0:
                shutil.chown(directory, "postgres", "postgres")
            initialise(directory)
            process = serve(directory)
            try:
                made = cls(directory)
                made.wait(process)
                yield made
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(30)
        finally:
            shutil.rmtree(directory)

    def wait(self, process: "subprocess.Popen[bytes]") -> None:
        for _ in range(300):
            if process.poll() is not None:
                raise AssertionError((self.directory / "log").read_text())
            with contextlib.suppress(sqlalchemy.exc.OperationalError):
                self.execute("SELECT 1")
                return
            time.sleep(0.1)
        raise AssertionError("PostgreSQL did not start")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def execute(self, statement: str) -> None:
        engine = sqlalchemy.create_engine(
            self.url().replace("://", "+psycopg://", 1), isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool
        )
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(statement))
        engine.dispose()

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[str]:
        """The URL of an empty database."""
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")


def as_postgres(argv: Sequence[str]) -> list[str]:
    """PostgreSQL refuses to run as root."""
    return [*(["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []), *argv]


def initialise(directory: Path) -> None:
    # Sorted by language, as most servers are: code that relies on the order of bytes must not pass here.
    argv = [
        postgres_program("initdb"), "--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8",
        "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en", f"--pgdata={directory}/data",
    ]  # fmt: skip
    subprocess.run(as_postgres(argv), check=True, capture_output=True, cwd=directory)


def serve(directory: Path) -> "subprocess.Popen[bytes]":
    argv = [
        postgres_program("postgres"), "-D", f"{directory}/data", "-k", str(directory), "-c", "listen_addresses=",
        "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB",
    ]  # fmt: skip
    if os.geteuid() == 0:
        # setpriv becomes the server itself, so that the process we stop is the server.
        argv = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--", *argv]
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(argv, stdout=log, stderr=log, cwd=directory)


def postgres_program(name: str) -> str:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else name
