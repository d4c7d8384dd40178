"""Talking to headnode-bmc: one line of JSON for a question, then lines of JSON until it is answered."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from headnode.errors import HeadnodeError, InvalidInput
from headnode.paths import Paths

# Nothing else is said while a rack is switched on in waves, so only silence of the process itself counts.
PATIENCE = 3600.0
LONGEST_LINE = 16 * 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """What one node's BMC said, or what is wrong with it; `status` is the word that output is folded by."""

    name: str
    status: str
    value: Any = None
    error: str = ""
    hint: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.error


@contextmanager
def connected(paths: Paths) -> Iterator[socket.socket | None]:
    """A connection to the process, or nothing when it does not run."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        try:
            connection.connect(str(paths.bmc_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            yield None
            return
        except OSError as error:
            raise HeadnodeError(
                f"headnode-bmc cannot be reached at {paths.bmc_socket}: {error.strerror}", hint="run this as root"
            ) from error
        yield connection


def say(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def ask(connection: socket.socket, question: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The answers as they come; an error of the whole question is raised."""
    try:
        say(connection, question)
        with connection.makefile("rb") as lines:
            while line := lines.readline(LONGEST_LINE):
                answer = dict(json.loads(line))
                if answer.get("done"):
                    return
                if "refused" in answer:
                    raise refusal(answer)
                yield answer
    except (OSError, ValueError) as error:
        raise HeadnodeError(f"headnode-bmc did not answer: {error}") from error
    raise HeadnodeError("headnode-bmc ended before it had answered", hint="try again; it is started anew by itself")


def refusal(answer: Mapping[str, Any]) -> HeadnodeError:
    """As if it had been raised here: the same words and the same exit code."""
    kind = InvalidInput if answer.get("code") == InvalidInput.exit_code else HeadnodeError
    return kind(str(answer["refused"]), hint=str(answer.get("hint", "")))
