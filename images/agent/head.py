"""Talk to the head node. What it answers is checked for its form; what it does not answer is asked again, politely."""

import http.client
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from .errors import AgentError, Refused

LARGEST = 64 << 20
# While these are answered the head node is being restarted or is busy.
COME_BACK = frozenset({408, 425, 429, 500, 502, 503, 504})
PATIENCE = 600.0
TIMEOUT = 60.0
# A generator of its own: threads that wait must not disturb whoever else counts on Python's common one.
CHANCE = random.Random()  # noqa: S311 - not for secrets


class NoAnswer(AgentError):
    """The head node could not be reached, or broke off; asking again may help."""


def pauses(patience: float, *, first: float = 0.5, longest: float = 15.0) -> Iterator[float]:
    """Growing pauses with some chance in them, so that a thousand nodes do not come back in the same moment."""
    left, pause = patience, first
    while left > 0:
        wait = min(left, pause * CHANCE.uniform(0.6, 1.4))
        left -= wait
        pause = min(longest, pause * 2)
        yield wait


class Head:
    def __init__(self, url: str, *, patience: float = PATIENCE, sleep: Callable[[float], None] = time.sleep) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.port = parts.port or 80
        self.session = ""
        self._patience = patience
        self._sleep = sleep

    def connection(self, timeout: float = TIMEOUT) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def get(self, path: str, *, patience: float | None = None) -> dict[str, Any]:
        return self._json("GET", path, None, patience)

    def post(self, path: str, document: object, *, patience: float | None = None) -> dict[str, Any]:
        return self._json("POST", path, json.dumps(document).encode(), patience)

    def text(self, path: str, *, patience: float | None = None) -> str:
        return self._asked("GET", path, None, patience).decode("utf-8", "replace")

    def _json(self, method: str, path: str, body: bytes | None, patience: float | None) -> dict[str, Any]:
        answer = self._asked(method, path, body, patience)
        try:
            document = json.loads(answer or b"{}")
        except ValueError as error:
            raise Refused(f"the head node's answer to {path} is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise Refused(f"the head node's answer to {path} is not a JSON object")
        return document

    def _asked(self, method: str, path: str, body: bytes | None, patience: float | None) -> bytes:
        """Ask until there is an answer; a refusal is an answer."""
        problem = NoAnswer("the head node was not asked")
        for pause in [0.0, *pauses(self._patience if patience is None else patience)]:
            self._sleep(pause)
            try:
                return self._once(method, path, body)
            except NoAnswer as error:
                problem = error
        raise problem

    def _once(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self.session:
            headers["Authorization"] = f"Bearer {self.session}"
        connection = self.connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read(LARGEST + 1)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"http://{self.host}{path} does not answer: {described(error)}") from error
        finally:
            connection.close()
        if answer.status in COME_BACK:
            words = told(content, "error") or answer.reason
            raise NoAnswer(f"http://{self.host}{path} answers {answer.status}: {words}")
        if len(content) > LARGEST:
            raise Refused(f"the head node's answer to {path} is larger than {LARGEST} bytes")
        if answer.status >= 300:
            refusal = told(content, "reason") or f"the head node refused {path} ({answer.status})"
            raise Refused(refusal, answer.status)
        return content


def described(error: Exception) -> str:
    return str(error) or type(error).__name__


def told(content: bytes, key: str) -> str:
    """The head node's own words when it gave some."""
    try:
        return str(json.loads(content).get(key) or "")[:1000]
    except (ValueError, AttributeError):
        return ""
