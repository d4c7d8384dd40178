"""A synthetic machine on a lab's wire: what its firmware, its agent and its installed system say, step by step."""

import http.client
import json
from dataclasses import dataclass, field
from typing import Any

from headnode.lab.client import Client, Lease, acquire
from headnode.lab.fetch import http_fetch, tftp_fetch
from pxe.dhcp import Architecture
from tests.integration.boot import HEAD, Head, own_address

GIB = 1 << 30


def disk(name: str = "vda", size: int = 20 * GIB, serial: str = "D1", holds: Any = ()) -> dict[str, Any]:
    return {"name": name, "device": f"/dev/{name}", "size": size, "type": "hdd", "rotational": True, "serial": serial,
            "holds": list(holds)}  # fmt: skip


@dataclass
class Machine:
    head: Head
    name: str
    mac: str
    architecture: Architecture = Architecture.BIOS
    session: str = ""
    facts: dict[str, Any] = field(default_factory=lambda: {
        "firmware": "bios", "disks": [disk()], "nics": [], "gpus": [], "memory_bytes": 8 * GIB, "cpus": 4,
    })  # fmt: skip

    @property
    def address(self) -> str:
        return self.head.address(self.name)

    # Firmware

    def dhcp(self, ipxe: bool = False) -> Lease:
        with self.head.nodes.inside():
            return acquire("eth0", Client(self.mac, self.architecture, ipxe))

    def tftp(self, file: str = "undionly.kpxe", timeout: float = 30.0) -> bytes:
        own_address(self.head, self.address)
        with self.head.nodes.inside():
            return tftp_fetch(HEAD, file, source=self.address, timeout=timeout)

    def get(self, path: str) -> int:
        own_address(self.head, self.address)
        with self.head.nodes.inside():
            return http_fetch(HEAD, path, source=self.address).status

    def first_stage(self) -> None:
        self.dhcp()
        self.tftp()
        self.dhcp(ipxe=True)

    def ramdisk(self) -> None:
        self.first_stage()
        assert self.get("/boot") == 200
        assert self.get("/ramdisk/x86_64/vmlinuz") == 200
        assert self.get("/ramdisk/x86_64/initrd") == 200

    # The agent

    def say(self, method: str, path: str, document: Any = None, token: str = "") -> tuple[int, Any]:
        own_address(self.head, self.address)
        with self.head.nodes.inside():
            connection = http.client.HTTPConnection(HEAD, 80, timeout=60, source_address=(self.address, 0))
            try:
                headers = {"Authorization": f"Bearer {token or self.session}", "Content-Type": "application/json"}
                connection.request(method, path, json.dumps(document or {}), headers)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
        try:
            return answer.status, json.loads(content)
        except ValueError:
            return answer.status, content.decode(errors="replace")

    def claim(self) -> None:
        status, token = self.say("GET", "/token")
        assert status == 200, token
        status, claimed = self.say("POST", "/node/v1/claim", {"token": token.strip()})
        assert status == 200, claimed
        self.session = claimed["session"]

    def inventory(self) -> None:
        assert self.say("POST", "/node/v1/inventory", self.facts)[0] == 200

    def plan(self) -> tuple[int, Any]:
        return self.say("GET", "/node/v1/plan")

    def step(self, number: int, name: str) -> None:
        event = {"kind": "step", "message": f"{number}/9 {name}", "step": name, "at": 100.0 + number}
        assert self.say("POST", "/node/v1/events", {"events": [event], "now": 100.5 + number})[0] == 200

    def failed(self, step: str, reason: str) -> None:
        assert self.say("POST", "/node/v1/failed", {"step": step, "reason": reason})[0] == 200

    def installed(self) -> str:
        """The whole of the agent's work; the installed system's token."""
        self.ramdisk()
        self.claim()
        self.inventory()
        assert self.plan()[0] == 200
        self.step(1, "partition")
        status, overlay = self.say("GET", "/node/v1/overlay")
        assert status == 200
        token = next(report_token(file) for file in overlay["files"] if file["path"] == "/etc/headnode/report.json")
        self.step(2, "stream the image")
        assert self.say("POST", "/node/v1/done")[0] == 200
        return token

    # The installed system

    def report(self, token: str, checks: list[dict[str, Any]]) -> str:
        status, said = self.say("POST", "/node/v1/verify", {"checks": checks}, token)
        assert status == 200, said
        return str(said["state"])


def report_token(file: dict[str, Any]) -> str:
    import base64

    return str(json.loads(base64.b64decode(file["content_base64"]))["token"])
