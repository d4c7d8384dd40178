"""The report program against a head node of a few lines: it asks what is expected, checks, reports, and waits."""

import http.server
import json
import shutil
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import images.nodecheck
from images.agent import firstboot

RECORDED = Path(__file__).parent / "recorded"


class Head(http.server.BaseHTTPRequestHandler):
    expected: dict[str, Any]
    asked: str
    received: list[dict[str, Any]]
    tokens: list[str]

    def do_GET(self) -> None:
        Head.tokens.append(self.headers.get("Authorization") or "")
        if self.path == "/asked" and Head.asked:
            self.say(200, Head.asked)
        elif self.path == "/node/v1/expected":
            self.say(200, json.dumps(Head.expected))
        else:
            self.say(404, "{}")

    def do_POST(self) -> None:
        Head.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.say(200, '{"state": "up"}')

    def say(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What a node has on its disk, and a head node that answers."""
    Head.expected, Head.asked, Head.received, Head.tokens = {"cpus": 100_000}, "", [], []
    shutil.copytree(Path(images.nodecheck.__file__).parent, tmp_path / "lib/nodecheck")
    monkeypatch.setattr(firstboot, "CHECKS", tmp_path / "lib/nodecheck")
    monkeypatch.setattr(firstboot, "synchronised", lambda _: (RECORDED / "chronyc-tracking.txt").read_text())
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Head) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"url": f"http://127.0.0.1:{server.server_address[1]}/node/v1/verify", "token": "t0", "cpus": 1}
        server.shutdown()


def test_what_is_expected_now_counts_more_than_what_was(installed: dict[str, Any]) -> None:
    assert firstboot.wanted_now(installed)["cpus"] == 100_000
    assert Head.tokens == ["Bearer t0"]
    away = {**installed, "url": "http://127.0.0.1:1/node/v1/verify"}
    assert firstboot.wanted_now(away) == away


def test_the_checks_beside_it_are_in_its_report(installed: dict[str, Any]) -> None:
    firstboot.report_until_heard(firstboot.wanted_now(installed))
    (report,) = Head.received
    found = {check["name"]: check for check in report["checks"]}
    assert found["cpus"]["ok"] is False
    assert found["cpus"]["message"].endswith("100000 inventoried")
    assert found["clock"]["ok"] is True


def test_checks_that_die_are_a_check_that_did_not_pass(installed: dict[str, Any]) -> None:
    (firstboot.CHECKS / "__main__.py").write_text("import os; os._exit(3)\n")
    (check,) = firstboot.more(installed)
    assert check["ok"] is False
    assert "did not end well" in str(check["message"])


def test_a_node_without_them_says_nothing_of_them(
    installed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firstboot, "CHECKS", tmp_path / "none")
    assert firstboot.more(installed) == []


def test_it_is_asked_by_a_file_and_answers_each_question_once(
    installed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(installed))
    monkeypatch.setattr(firstboot, "EXPECTED", file)
    looks = iter(["", '{"until": 1}', '{"until": 1}', "", '{"until": 2}'])

    class Over(BaseException):
        pass

    def sleep(_: float) -> None:
        try:
            Head.asked = next(looks)
        except StopIteration:
            raise Over from None

    monkeypatch.setattr(firstboot, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    with pytest.raises(Over):
        firstboot.main()
    assert len(Head.received) == 3, "at the start, and once for each question"


@pytest.mark.parametrize(
    ("name", "ok", "words"),
    [
        ("chronyc-tracking.txt", True, "0.012 ms off, stratum 3, from 10.20.0.1"),
        ("chronyc-off.txt", False, "1512.300 ms off, stratum 3, from 10.20.0.1; at most 100 ms is allowed"),
        ("chronyc-unsynchronised.txt", False, "not synchronised with anybody"),
        ("chronyc-truncated.txt", False, "chrony does not say"),
        ("chronyc-error.txt", False, "chrony does not say"),
    ],
)
def test_what_chrony_says(name: str, ok: bool, words: str) -> None:
    check = firstboot.clock((RECORDED / name).read_text(), 100)
    assert check["ok"] is ok
    assert str(check["message"]).startswith(words)
