"""Progress and log on their way to the head node: in batches, beside the work, and never in its way."""

import threading
import time
from typing import Any

from .errors import AgentError
from .head import Head
from .runner import Log

EVERY = 2.0
MOST = 500


class Reporter:
    def __init__(self, head: Head, log: Log, *, every: float = EVERY) -> None:
        self._head = head
        self.log = log
        self._every = every
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send_for_ever, name="reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def event(
        self, kind: str, message: str, *, step: str = "", percent: float | None = None, size: int | None = None,
        total: int | None = None,
    ) -> None:  # fmt: skip
        event = {
            "kind": kind, "message": message, "step": step, "percent": percent, "bytes": size, "total": total,
            "at": round(time.time(), 3),
        }  # fmt: skip
        with self._lock:
            last = self._events[-1] if self._events else None
            # Of progress that was not sent yet, only the newest is news.
            if kind == "progress" and last and last["kind"] == "progress" and last["step"] == step:
                self._events.pop()
            self._events = [*self._events, event][-MOST:]
        if kind != "progress":
            self.log.write(f"headnode: {message}")

    def stop(self) -> None:
        """Send what is left, once."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)
        self.send(patience=10)

    def send(self, patience: float = 0) -> bool:
        with self._lock:
            events, self._events = self._events, []
        text = self.log.take()
        if not events and not text:
            return True
        try:
            document = {"events": events, "log": text, "now": round(time.time(), 3)}
            self._head.post("/node/v1/events", document, patience=patience)
        except AgentError:
            with self._lock:
                self._events = [*events, *self._events][-MOST:]
            self.log.give_back(text)
            return False
        return True

    def _send_for_ever(self) -> None:
        pause = self._every
        while not self._stopped.wait(pause):
            pause = self._every if self.send() else min(pause * 2, 30.0)
