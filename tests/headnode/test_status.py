"""The cluster's health on one screen, and who is told of what."""

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headnode.errors import HeadnodeError
from headnode.model import Event, Severity, State
from headnode.reconcile import notifying
from headnode.workflows import enroll, publishing, status
from headnode.workflows.context import Context
from tests.support import Postgres, headnode, row_of


@pytest.fixture
def enrolled(context: Context) -> Context:
    assert enroll.enroll(context, [row_of(n) for n in range(1, 5)]).problems == []
    publishing.publish_changes(context)
    return context


def change_to(context: Context, names: list[str], state: State, reason: str | None = None) -> None:
    with context.inventory.change("test", "test") as change:
        change.replace([replace(node, state=state, reason=reason) for node in change.nodes(names)])


def test_services_that_do_not_run_are_an_error(enrolled: Context) -> None:
    found = headnode(enrolled.paths.root, "status")
    assert found.code == 2
    assert "demo: 4 enrolled" in found.out
    assert "ERROR    services: not running" in found.out
    assert "foreign DHCP: none" in found.out


def test_failures_are_folded_by_their_reason(enrolled: Context) -> None:
    change_to(enrolled, ["gpu01", "gpu02"], State.FAILED, "no DHCP request seen")
    found = status.status(enrolled)
    lines = {line.what: line for line in found.lines}
    assert lines["failed gpu[01-02]"].words == "no DHCP request seen"
    assert lines["failed gpu[01-02]"].hint == "headnode why gpu[01-02]"
    assert found.states["failed"] == 2


def test_a_hot_node_is_a_warning(enrolled: Context) -> None:
    change_to(enrolled, ["gpu01"], State.UP)
    with enrolled.inventory.change("test", "test") as change:
        change.record("sensor", "CPU1 Temp is critical at 97 C", node="gpu01", severity=Severity.ERROR)
    assert any(line.what == "lately gpu01" for line in status.status(enrolled).lines)


def test_as_json_and_for_prometheus(enrolled: Context) -> None:
    document = json.loads(headnode(enrolled.paths.root, "status", "-o", "json").out)
    assert document["status"] == "error"
    assert document["nodes"]["enrolled"] == 4
    text = headnode(enrolled.paths.root, "status", "-o", "prometheus").out
    assert 'headnode_nodes{state="enrolled"} 4' in text
    assert "headnode_status 2" in text


class Receiver(http.server.BaseHTTPRequestHandler):
    received: list[dict[str, Any]] = []  # noqa: RUF012 - one test at a time
    answer = 200

    def do_POST(self) -> None:
        Receiver.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(Receiver.answer)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Path]:
    Receiver.received, Receiver.answer = [], 200
    with socketserver.TCPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path / "webhook"
        file.write_text(f"http://127.0.0.1:{server.server_address[1]}/secret-path\n")
        yield file
        server.shutdown()


def told_by(context: Context, text: str) -> Context:
    with context.paths.site_file.open("a") as file:
        file.write(f"\nnotify: {text}\n")
    return Context(context.paths, "reconcile", "test")


def happened(context: Context, message: str, severity: Severity = Severity.ERROR) -> None:
    with context.inventory.change("test", "test") as change:
        change.record_all([Event("failed", message, "test", "test", "gpu01", severity)])


def test_each_event_is_told_once_and_only_the_severe(enrolled: Context, webhook: Path) -> None:
    happened(enrolled, "before anybody wanted to know")
    at = told_by(enrolled, f"{{severity: warning, webhook_file: {webhook}}}")
    assert notifying.tell(at) == 0
    happened(enrolled, "of no interest", Severity.INFO)
    happened(enrolled, "the disk is on fire")
    happened(enrolled, "the fan is slow", Severity.WARNING)
    assert notifying.tell(at) == 2
    assert notifying.tell(at) == 0
    (document,) = Receiver.received
    assert [event["message"] for event in document["events"]] == ["the disk is on fire", "the fan is slow"]
    assert document["text"].startswith("[demo] gpu01: the disk is on fire (and 1 more)\n")
    at.close()


def test_what_could_not_be_told_is_told_later(enrolled: Context, webhook: Path) -> None:
    at = told_by(enrolled, f"{{webhook_file: {webhook}}}")
    notifying.tell(at)
    happened(enrolled, "the disk is on fire")
    Receiver.answer = 500
    with pytest.raises(HeadnodeError, match="the webhook answers 500") as failure:
        notifying.tell(at)
    assert "secret-path" not in str(failure.value)
    Receiver.answer = 200
    assert notifying.tell(at) == 1
    at.close()


class Mailbox(socketserver.StreamRequestHandler):
    """Enough of SMTP (RFC 5321) to take one message."""

    received: list[str] = []  # noqa: RUF012 - as above

    def handle(self) -> None:
        self.say("220 mail")
        text, reading = "", False
        while line := self.rfile.readline().decode():
            if reading and line == ".\r\n":
                Mailbox.received.append(text)
                reading = False
                self.say("250 ok")
            elif reading:
                text += line
            elif line.upper().startswith("DATA"):
                reading = True
                self.say("354 go on")
            elif line.upper().startswith("QUIT"):
                self.say("221 bye")
                return
            else:
                self.say("250 ok")

    def say(self, words: str) -> None:
        self.wfile.write(f"{words}\r\n".encode())


def test_by_mail(enrolled: Context) -> None:
    Mailbox.received = []
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        smtp = f"127.0.0.1:{server.server_address[1]}"
        at = told_by(enrolled, f'{{mail_to: [ops@example.org], smtp: "{smtp}"}}')
        notifying.tell(at)
        happened(enrolled, "the disk\nSubject: forged")
        notifying.tell(at)
        server.shutdown()
        at.close()
    (mail,) = Mailbox.received
    assert "Subject: [demo] gpu01: the disk Subject: forged\r\n" in mail
    assert "From: headnode@demo.lan\r\n" in mail
    assert "To: ops@example.org\r\n" in mail


@pytest.mark.integration
@pytest.mark.program("runuser", "setpriv")
def test_one_leads_also_with_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    from headnode.inventory import Inventory

    with postgres.database("lead") as url:
        one, two = Inventory.open(url, tmp_path / "x"), Inventory.open(url, tmp_path / "x")
        held = one.lead("reconcile")
        assert held is not None
        assert held.held()
        assert two.lead("reconcile") is None
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        assert not held.held(), "whoever loses the session knows"
        other = two.lead("reconcile")
        assert other is not None
        held.release()
        assert other.held()
        other.release()
        again = one.lead("reconcile")
        assert again is not None
        again.release()
        one.close()
        two.close()
