"""QEMU's machine protocol: one JSON object per line over a unix socket."""

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headnode.errors import HeadnodeError


class Qmp:
    """A short conversation with a running QEMU. Events are passed over; only answers count."""

    def __init__(self, path: Path, timeout: float = 10.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
            self._lines = self._socket.makefile("r", encoding="utf-8")
            self._lines.readline()
            self.execute("qmp_capabilities")
        except (OSError, HeadnodeError) as error:
            self._socket.close()
            raise HeadnodeError(f"the machine at {path} does not answer: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def execute(self, command: str, **arguments: Any) -> Any:
        question = {"execute": command, **({"arguments": arguments} if arguments else {})}
        try:
            self._socket.sendall(json.dumps(question).encode() + b"\n")
            while line := self._lines.readline():
                answer = json.loads(line)
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise HeadnodeError(f"the machine refused '{command}': {answer['error'].get('desc')}")
        except (OSError, ValueError) as error:
            raise HeadnodeError(f"the machine did not answer '{command}': {error}") from error
        raise HeadnodeError(f"the machine went away during '{command}'")


def answers(path: Path) -> bool:
    """Whether a machine is there to be talked to."""
    try:
        with Qmp(path, timeout=2.0):
            return True
    except HeadnodeError:
        return False
