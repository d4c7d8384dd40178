"""Telling the running services what was published: one line of JSON over a unix socket, one line back."""

import json
import socket
from collections import Counter
from collections.abc import Collection
from typing import Any

from headnode.errors import HeadnodeError
from headnode.paths import Paths

# A long list of files in one folder says no more than the folder does.
MOST_PATHS = 100


def reload(paths: Paths, touched: Collection[str]) -> None:
    """Ask the running services to take note; when none run, they read everything at their start anyway."""
    answer = ask(paths, {"touched": shortened(touched)})
    if answer is not None and answer.get("error"):
        raise HeadnodeError(str(answer["error"]))


def shortened(touched: Collection[str]) -> list[str]:
    """Files of crowded folders as FOLDER/*; main configurations stand in small ones and are always named."""
    crowds = Counter(path.rpartition("/")[0] for path in touched)
    return sorted(
        {path if crowds[(folder := path.rpartition("/")[0])] <= MOST_PATHS else f"{folder}/*" for path in touched}
    )


def running(paths: Paths) -> bool:
    return ask(paths, {}) is not None


def ask(paths: Paths, question: dict[str, Any], timeout: float = 10.0) -> dict[str, Any] | None:
    """The services' answer, or nothing when they do not run."""
    if not paths.control_socket.exists():
        return None  # also where a path is too long for any socket, so that none can be there
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(paths.control_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise HeadnodeError(f"the services cannot be reached at {paths.control_socket}: {error}") from error
        try:
            connection.sendall(json.dumps(question).encode() + b"\n")
            with connection.makefile("rb") as answer:
                return dict(json.loads(answer.readline() or b"{}"))
        except (ConnectionResetError, BrokenPipeError):
            return None  # they are just ending; who starts next reads everything
        except (OSError, ValueError) as error:
            raise HeadnodeError(f"the services at {paths.control_socket} did not answer: {error}") from error
