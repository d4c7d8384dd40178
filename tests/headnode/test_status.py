"""The cluster's health on one screen, and who is told of what."""

import http.server
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headnode import notify
from headnode.errors import HeadnodeError
from headnode.inventory import Inventory
from headnode.model import Event, Severity, State
from headnode.reconcile import duties, notifying
from headnode.workflows import check, enroll, publishing, status
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


@pytest.mark.parametrize("noisy", ["gpu02", "gpu03"])
def test_a_noisy_node_hides_nobody(enrolled: Context, noisy: str) -> None:
    """Neither one in maintenance, whose noise is not shown, nor one that is up and made it earlier."""
    change_to(enrolled, ["gpu01", "gpu03"], State.UP)
    change_to(enrolled, ["gpu02"], State.MAINTENANCE, "new fans")
    noise = Event("sensor", "FAN1 stands still", "", "", noisy, severity=Severity.ERROR)
    with enrolled.inventory.change("test", "test") as change:
        change.record_all([noise] * status.MOST_EVENTS)
        change.record("sensor", "CPU1 Temp is critical at 97 C", node="gpu01", severity=Severity.ERROR)
        if noisy == "gpu02":
            change.record_all([noise] * status.MOST_EVENTS)
    lately = [line.what for line in status.status(enrolled).lines if line.what.startswith("lately")]
    assert lately == (["lately gpu01"] if noisy == "gpu02" else ["lately gpu03", "lately gpu01"])


@pytest.mark.parametrize(
    ("severities", "code"),
    [([], 0), (["info", "info"], 0), (["info", "warning"], 1), (["warning", "error", "info"], 2)],
)
def test_the_worst_line_is_the_exit_code(severities: list[str], code: int) -> None:
    lines = tuple(status.Line("something", Severity(severity), "words") for severity in severities)
    found = status.Status(lines, {})
    assert found.code == code
    assert f"headnode_status {code}\n" in status.metrics(found)


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


@pytest.mark.parametrize("text", ["", "mailto:x@example.org", "https://", "https://a b/", "http://[::1", "secret-path"])
def test_a_file_without_a_web_address_is_said_and_not_shown(enrolled: Context, tmp_path: Path, text: str) -> None:
    file = tmp_path / "webhook"
    with pytest.raises(HeadnodeError, match="cannot be read: No such file"):
        notify.address_in(file)
    file.write_text(f"{text}\n")
    with pytest.raises(HeadnodeError, match=r"the first line of .* is not a web address") as failure:
        notify.address_in(file)
    assert not text or text not in str(failure.value)
    at = told_by(enrolled, f"{{webhook_file: {file}}}")
    assert next(found for found in check.check(at) if found.check == "webhook").result == "failed"
    at.close()


def test_a_webhook_that_everybody_can_read_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "webhook"
    file.write_text("https://hooks.example.org/abc\nwhat else stands there\n")
    file.chmod(0o644)
    assert check.webhook(file).hint == f"chmod o= {file}"
    file.chmod(0o640)
    assert check.webhook(file).message == f"{file} holds a web address"


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


@pytest.mark.integration
@pytest.mark.program("runuser", "setpriv")
def test_what_is_done_once_is_done_by_one_of_two_head_nodes(postgres: Postgres, context: Context) -> None:
    """And when the leader's session is cut off, one of the two goes on."""
    turns: list[str] = []
    tried: list[str] = []
    stop = threading.Event()

    def duty(name: str, over: threading.Event) -> None:
        turns.append(name)
        over.wait()

    def run(head: Context) -> None:
        while not stop.is_set():
            duties.lead(head, {"duty": partial(duty, head.actor)}, stop)
            tried.append(head.actor)

    with postgres.database("twoheads") as url:
        with context.paths.site_file.open("a") as file:
            file.write(f"\ndatabase: {{url: '{url}'}}\n")
        heads = [Context(context.paths, name, "test") for name in ("one", "two")]
        threads = [threading.Thread(target=run, args=(head,)) for head in heads]
        for thread in threads:
            thread.start()
        eventually(lambda: len(turns) == 1 and len(tried) >= 3)
        assert turns[0] not in tried, "it leads on"
        assert len(turns) == 1, "the other has tried, in vain"
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        eventually(lambda: len(turns) >= 2)
        stop.set()
        for thread in threads:
            thread.join()
        for head in heads:
            head.close()


def eventually(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.05)
