"""Synthetic agents: they speak the node API as real ones do, each with its own way of going wrong."""

import http.client
import json
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.firmware import disk


class Connection(http.client.HTTPConnection):
    """To the node API's own socket, where nginx would be."""

    def __init__(self, path: Path) -> None:
        super().__init__("head")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(str(self._path))


@dataclass
class Disks:
    """What was erased, counted: (deployment, boot)."""

    erased: Counter[tuple[int, int]] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def erase(self, deployment: int, boot: int) -> None:
        with self.lock:
            self.erased[deployment, boot] += 1


@dataclass
class Agent:
    socket: Path
    name: str
    address: str
    disks: Disks
    chance: random.Random
    session: str = ""
    deployment: int = 0
    boot: int = 0

    def say(self, method: str, path: str, document: Any = None, token: str = "") -> tuple[int, Any]:
        connection = Connection(self.socket)
        try:
            headers = {"Authorization": f"Bearer {token or self.session}", "X-Real-IP": self.address,
                       "Content-Type": "application/json"}  # fmt: skip
            connection.request(method, path, json.dumps(document or {}), headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(content) if content[:1] == b"{" else content.decode()

    def pause(self) -> None:
        time.sleep(self.chance.random() * 0.15)

    def start(self) -> bool:
        """A network boot: token, claim, inventory, plan; whether there was work."""
        status, token = self.say("GET", "/token")
        if status != 200:
            return False
        status, claimed = self.say("POST", "/node/v1/claim", {"token": token.strip()})
        assert status == 200, claimed
        self.session, self.deployment = claimed["session"], int(claimed["deployment"])
        self.boot += 1
        self.pause()
        facts = {"firmware": "uefi", "disks": [disk(serial=f"D-{self.name}")], "nics": [], "gpus": []}
        assert self.say("POST", "/node/v1/inventory", facts)[0] == 200
        return True

    def erase(self) -> None:
        """Only with a plan in hand; the plan's first steps erase."""
        status, plan = self.say("GET", "/node/v1/plan")
        assert status == 200, plan
        assert any(step.get("destroys") for step in plan["steps"])
        self.disks.erase(self.deployment, self.boot)
        self.pause()
        event = {"kind": "step", "message": "1/9 partition", "step": "partition", "at": time.time()}
        self.say("POST", "/node/v1/events", {"events": [event], "now": time.time()})

    def finish(self, times: int = 1) -> None:
        for _ in range(times):
            self.pause()
            assert self.say("POST", "/node/v1/done")[0] == 200

    def report(self, ok: bool = True) -> None:
        """Its token was in the overlay."""
        checks = [{"name": "hostname", "ok": ok, "message": f"it is {self.name if ok else 'localhost'}"}]
        checks.append({"name": "clock", "ok": True, "message": "well", "offset_ms": 0.1})
        assert self.say("POST", "/node/v1/verify", {"checks": checks}, self.reporting)[0] == 200

    def overlay(self) -> None:
        from tests.integration.firmware import report_token

        status, found = self.say("GET", "/node/v1/overlay")
        assert status == 200
        self.reporting = next(report_token(f) for f in found["files"] if f["path"] == "/etc/headnode/report.json")

    # Ways to live

    def good(self, done: int = 1, ok: bool = True) -> None:
        assert self.start()
        self.erase()
        self.overlay()
        self.finish(done)
        self.come_back()
        self.pause()
        self.report(ok)

    def come_back(self) -> None:
        """After the work: nobody gives it the means to begin again."""
        assert self.say("GET", "/token")[0] == 404
        assert self.say("GET", "/node/v1/plan")[0] == 404

    def says_done_again(self) -> None:
        self.good(done=3)

    def is_forged(self) -> None:
        """Somebody else says that it is done."""
        assert self.say("POST", "/node/v1/done", token="made-up")[0] == 404
        self.good()

    def loses_power(self) -> None:
        assert self.start()
        self.erase()
        self.pause()
        self.good()

    def is_wrong(self) -> None:
        self.good(ok=False)

    def gives_up(self) -> None:
        assert self.start()
        self.erase()
        assert (
            self.say("POST", "/node/v1/failed", {"step": "partition", "reason": "sfdisk: the disk is on fire"})[0]
            == 200
        )

    def falls_silent(self) -> None:
        assert self.start()
        self.erase()

    def never_comes(self) -> None:
        """Nothing at all."""
