"""The people's door beside the nodes': where it answers, where it does not, and over HTTPS."""

import http.client
import os
import signal
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from headnode import authority
from headnode.door import live, tunnel
from headnode.lab.lab import lab
from headnode.lab.process import wait_for
from headnode.paths import Paths
from headnode.workflows import serve
from headnode.workflows.context import Context
from headnode.workflows.enroll import enroll
from tests.integration.bmc_lab import free_port
from tests.integration.boot import HEAD, Head, head_node
from tests.support import row_of
from tests.web.consoles import fake_bmc
from tests.web.door import door, first_admin

pytestmark = [pytest.mark.integration]
LOGIN = b"Log in to see and run this cluster"


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    logs = tmp_path_factory.mktemp("logs")
    with lab("webdoor", logs=logs) as running, head_node(running, tmp_path_factory.mktemp("head")) as made:
        made.enroll("gpu01", mac="52:54:00:aa:00:01")
        made.up()
        yield made


@pytest.mark.root
@pytest.mark.program("dnsmasq", "nginx")
def test_nothing_of_it_answers_on_the_provision_network(head: Head) -> None:
    with head.nodes.inside():
        opened = [port for port in range(1, 65_536) if answers(HEAD, port)]
        assert 80 in opened, "the nodes' own door is there"
        for port in opened:
            said = asked(HEAD, port, "/login") + asked(HEAD, port, "/api/v1/nodes")
            assert LOGIN not in said, port
            assert b"Who is asking" not in said, port
    with head.host.inside():
        assert LOGIN in asked("127.0.0.1", 8080, "/")
        assert not answers(HEAD, 8080)


@pytest.mark.root
@pytest.mark.program("dnsmasq", "nginx")
def test_the_first_start_says_how_to_become_admin(head: Head) -> None:
    note = head.paths.runtime / "first-admin"
    link = note.read_text().strip()
    assert link.startswith("http://127.0.0.1:8080/join/")
    assert note.stat().st_mode & 0o077 == 0
    assert wait_for(lambda: f"create the first admin at {link}" in head.log(), 5)
    # The same door through its socket, which a lab leads to the machine it runs on; for root alone.
    path = head.paths.runtime / "web.sock"
    assert path.stat().st_mode & 0o077 == 0
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"GET /login HTTP/1.0\r\nHost: localhost:8080\r\n\r\n")
        assert LOGIN in everything(connection)


def test_over_https_with_our_own_authority(root: Path) -> None:
    """As on an admins' network; loopback stands in for it, which needs the certificate to be asked for."""
    paths = Paths(root)
    text, listen = paths.site_file.read_text(), f"127.0.0.1:{free_port()}"
    authority.sign_server(paths.ca, paths.state / "web", "web", ["127.0.0.1"], "demo")
    before = (paths.state / "web/web.crt").read_bytes()
    authority.sign_server(paths.ca, paths.state / "web", "web", ["127.0.0.1"], "demo")
    assert (paths.state / "web/web.crt").read_bytes() == before, "made once"
    given = "certificate: /var/lib/headnode/web/web.crt, key: /var/lib/headnode/web/web.key"
    paths.site_file.write_text(f"{text}\nweb: {{listen: '{listen}', {given}}}\n")
    with door(root) as made:
        trusted = ssl.create_default_context(cafile=str(paths.ca / "ca.crt"))
        with urllib.request.urlopen(f"{made.base}/login", context=trusted, timeout=20) as answer:
            assert made.base.startswith("https://")
            assert "max-age" in answer.headers["Strict-Transport-Security"]
            assert LOGIN in answer.read()
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"{made.base}/login", timeout=20)


def test_a_door_that_is_killed_loses_no_login(root: Path) -> None:
    with door(root) as made:
        first_admin(made)
        assert made.process is not None
        # With its worker, as the supervisor would find them and end what is left.
        os.killpg(made.process.pid, signal.SIGKILL)
        made.process.wait()
    with door(root) as again:
        again.cookies = made.cookies
        assert again.ask("/nodes").status == 200


def test_a_console_and_a_stream_end_with_the_login(root: Path) -> None:
    """Through the real server: what the tunnel gives up is really closed, towards the browser and towards the BMC."""
    context = Context(Paths(root), "tester", "a test")
    enroll(context, [row_of(1)])
    context.close()
    with fake_bmc(Paths(root)) as bmc, door(root) as made:
        first_admin(made)
        cookie = "; ".join(f"{key}={value}" for key, value in made.cookies.items())
        address = made.base.replace("http", "ws", 1) + "/nodes/gpu01/console"
        with connect(address, origin=Origin(made.base), additional_headers={"Cookie": cookie}) as console:
            news = urllib.request.urlopen(urllib.request.Request(f"{made.base}/live", headers={"Cookie": cookie}))
            assert b"retry" in news.readline()
            console.send(b"who is there")
            assert console.recv(10) == b"who is there"
            time.sleep(tunnel.LOOK_EVERY + 1)
            console.send(b"still there")
            assert console.recv(10) == b"still there", "it stays as long as the login does"
            assert made.post("/logout").status == 303
            began = time.monotonic()
            with pytest.raises(ConnectionClosed):
                console.recv(tunnel.LOOK_EVERY + 5)
            assert bmc.left.wait(5)
        news.read()
        news.close()
        assert time.monotonic() - began < live.KEEP_ALIVE + 5


def test_a_port_that_somebody_has_is_named(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        paths = Paths(root)
        port = taken.getsockname()[1]
        paths.site_file.write_text(f"{paths.site_file.read_text()}\nweb: {{listen: '127.0.0.1:{port}'}}\n")
        context = Context(paths, "tester", "a test")
        with pytest.raises(Exception, match=f"another program has 127.0.0.1:{port}"):
            serve.prepare_people_door(context, first=True)
        context.close()


def answers(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((host, port)) == 0


def asked(host: str, port: int, path: str) -> bytes:
    try:
        with socket.create_connection((host, port), timeout=3) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
            return everything(connection)
    except (OSError, http.client.HTTPException):
        return b""


def everything(connection: socket.socket) -> bytes:
    connection.settimeout(3)
    found = b""
    try:
        while data := connection.recv(65_536):
            found += data
    except OSError:
        pass
    return found
