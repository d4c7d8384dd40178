"""A package cache for a lab, without the cache: what nodes ask of the provision network is fetched from outside it."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from headnode.lab.net import Namespace

PORT = 3142


class Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        # Path → the status it was answered with.
        self.asked: dict[str, int] = {}


class Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.forward("GET")

    def do_HEAD(self) -> None:
        self.forward("HEAD")

    def forward(self, method: str) -> None:
        parts = urlsplit(self.path)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=60)
        try:
            connection.request(method, parts.path or "/", headers={"Host": parts.netloc})
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.send_error(502, str(error))
            return
        finally:
            connection.close()
        self.server.asked[parts.path] = answer.status
        self.send_response(answer.status)
        self.send_header("Content-Length", answer.headers.get("Content-Length", str(len(content))))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet; what was asked is kept."""


@contextmanager
def mirror(head: Namespace, address: str) -> Iterator[Proxy]:
    """The socket belongs to the head node's network, the threads that fetch to this machine's."""
    with head.inside():
        listening = socket.create_server((address, PORT))
    proxy = Proxy(listening)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
