"""A head node of a few lines that speaks the agent's contract, and can be told to misbehave."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN, SESSION = "one-time-token", "session-secret"
CHUNK = 1 << 20


@dataclass
class FakeHead:
    """What it says, and what it was told."""

    node: str = "n1"
    intent: str = "deploy"
    scripts: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    plan: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    overlay: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    claims: int = 0
    done: int = 0
    failed: dict[str, Any] | None = None
    requests: list[str] = field(default_factory=list)
    # path → answers to give first, each a status or a number of bytes after which the connection breaks.
    trouble: dict[str, list[int]] = field(default_factory=dict)

    def answer(self, method: str, path: str, document: dict[str, Any], session: str) -> tuple[int, Any]:
        if path == "/node/v1/claim":
            return self._claim(document)
        if session != f"Bearer {SESSION}":
            return 404, {}
        handlers: dict[str, Callable[[dict[str, Any]], tuple[int, Any]]] = {
            "POST /node/v1/inventory": self._inventory,
            "GET /node/v1/plan": self._plan,
            "GET /node/v1/overlay": lambda _: (200, {"files": self.overlay}),
            "POST /node/v1/events": self._events,
            "POST /node/v1/done": self._done,
            "POST /node/v1/failed": self._failed,
        }
        handler = handlers.get(f"{method} {path}")
        return handler(document) if handler else (404, {})

    def _claim(self, document: dict[str, Any]) -> tuple[int, Any]:
        if document.get("token") != TOKEN or self.done or self.failed:
            return 404, {}
        self.claims += 1
        return 200, {"session": SESSION, "node": self.node, "intent": self.intent, "deployment": 1}

    def _inventory(self, document: dict[str, Any]) -> tuple[int, Any]:
        self.facts = document
        return 200, {}

    def _plan(self, _: dict[str, Any]) -> tuple[int, Any]:
        if self.plan is None or self.facts is None:
            return 409, {"reason": "there is no plan for this machine"}
        return 200, self.plan(self.facts)

    def _events(self, document: dict[str, Any]) -> tuple[int, Any]:
        self.events += document["events"]
        self.log += document["log"]
        return 200, {}

    def _done(self, _: dict[str, Any]) -> tuple[int, Any]:
        self.done += 1
        return 200, {}

    def _failed(self, document: dict[str, Any]) -> tuple[int, Any]:
        self.failed = document
        return 200, {}

    def text(self, path: str) -> str | None:
        if path == "/token":
            return None if self.done or self.failed else TOKEN + "\n"
        if path == "/boot":
            return self.scripts["disk" if self.done else self.intent]
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    head: FakeHead

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def _serve(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.head.requests.append(f"{method} {self.path}")
        queue = self.head.trouble.get(self.path)
        trouble = queue.pop(0) if queue else 0
        if 400 <= trouble < 600:
            self._send(trouble, b"{}")
        elif self.path in self.head.files:
            self._send_file(self.head.files[self.path], trouble)
        elif (text := self.head.text(self.path)) is not None:
            self._send(200, text.encode())
        elif self.path.startswith("/node/v1/"):
            document = json.loads(body or b"{}")
            status, answer = self.head.answer(method, self.path, document, self.headers.get("Authorization") or "")
            self._send(status, json.dumps(answer).encode())
        else:
            self._send(404, b"")

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _send_file(self, path: Path, break_after: int) -> None:
        if not path.exists():
            self._send(404, b"")
            return
        size = path.stat().st_size
        wanted = self.headers.get("Range")
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(size - begin))
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
        self.end_headers()
        left = min(size - begin, break_after) if break_after else size - begin
        with path.open("rb") as file:
            file.seek(begin)
            while left and (piece := file.read(min(CHUNK, left))):
                self.wfile.write(piece)
                left -= len(piece)
        if break_after:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Silent; `requests` is the record."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Machines that are switched off break connections; that is no error of ours."""


def serve(head: FakeHead, address: str = "127.0.0.1", port: int = 0) -> Server:
    """Listening and serving in a thread; the caller shuts it down. Its socket belongs to the caller's namespace."""
    handler = type("BoundHandler", (Handler,), {"head": head})
    server = Server((address, port), handler)
    threading.Thread(target=server.serve_forever, name="fakehead", daemon=True).start()
    return server
