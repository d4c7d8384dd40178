"""The nodes' door as an agent meets it: real nginx, the real node API, connections from the nodes' own addresses."""

import base64
import http.client
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headnode.inventory import Change
from headnode.lab.lab import lab
from headnode.lifecycle import WORKING
from headnode.model import Intent, Node, State
from headnode.workflows import deploy
from images.signing import signer
from images.store import IMAGE, Store
from tests.integration.boot import HEAD, SITE, Head, eventually, head_node, mac

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ip", "dnsmasq", "nginx")]
NO = (404, b'{"error":"no"}\n')
FACTS = {
    "firmware": "uefi",
    "disks": [{"name": "vda", "device": "/dev/vda", "size": 40 << 30, "type": "ssd", "serial": "S1", "holds": []}],
}
# Everything that only the agent of a running deployment may ask.
WITH_SESSION = (
    ("POST", "/node/v1/inventory"),
    ("GET", "/node/v1/plan"),
    ("GET", "/node/v1/overlay"),
    ("POST", "/node/v1/events"),
    ("POST", "/node/v1/failed"),
    ("POST", "/node/v1/done"),
)
SITE_WITH_LAYOUT = (
    SITE.replace("gpu: {}", "gpu: {layout: lab}")
    + """
layouts:
  lab:
    disks: {system: {min_size: 8G}}
    volumes:
      - {name: esp, on: system, size: 64M, type: esp, mount: /boot/efi}
      - {name: root, on: system, size: rest, mount: /}
"""
)


@dataclass
class Door:
    """The head node, seen from the address of a node."""

    head: Head

    def ask(
        self, name: str, method: str, path: str, document: object = None, *, session: str = "", **headers: str
    ) -> tuple[int, bytes]:
        body = json.dumps(document or {}).encode() if method == "POST" else None
        more = {key.replace("_", "-"): value for key, value in headers.items()}
        if session:
            more["Authorization"] = f"Bearer {session}"
        with self.head.nodes.inside():
            connection = http.client.HTTPConnection(HEAD, 80, timeout=30, source_address=(self.head.address(name), 0))
            connection.request(method, path, body, {"Content-Type": "application/json", **more})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def token(self, name: str) -> str:
        status, content = self.ask(name, "GET", "/token")
        assert status == 200
        return content.decode().strip()

    def claim(self, name: str, token: str, **headers: str) -> tuple[int, bytes]:
        return self.ask(name, "POST", "/node/v1/claim", {"token": token}, **headers)

    def claimed(self, name: str) -> str:
        status, content = self.claim(name, self.token(name))
        assert status == 200
        return str(json.loads(content)["session"])

    def node(self, name: str) -> Node:
        found = self.head.context.inventory.node(name)
        assert found is not None
        return found

    def begin(self, name: str, intent: Intent = Intent.DEPLOY) -> None:
        if self.node(name).state in WORKING:
            deploy.abort(self.head.context, [name])
        deploy.begin(self.head.context, [name], intent, image="gpu@1" if intent is Intent.DEPLOY else None)

    @contextmanager
    def change(self) -> Iterator[Change]:
        with self.head.context.inventory.change("test", "test") as change:
            yield change


def make_image(place: Path) -> None:
    """Small, signed and in the store; nothing here unpacks it."""
    filled = place / "filled"
    filled.mkdir(parents=True)
    (filled / IMAGE).write_bytes(b"not really an image")
    store = Store(place / "images")
    store.root.mkdir()
    store.publish("gpu", filled, {"unpacked_size": 1000}, signer(place / "key"))


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    place = tmp_path_factory.mktemp("door")
    with (
        lab(f"n{os.getpid():x}", logs=place) as made,
        head_node(made, tmp_path_factory.mktemp("head"), SITE_WITH_LAYOUT) as head,
    ):
        make_image(head.paths.state)
        head.up()
        for number in (1, 2, 3):
            address = head.enroll(f"gpu{number:02}", mac=mac(number))
            head.nodes.ip(f"addr add {address}/16 dev eth0")
        yield Door(head)


def test_a_token_is_good_once_and_for_its_own_node_alone(door: Door) -> None:
    door.begin("gpu01")
    door.begin("gpu02")
    token = door.token("gpu01")
    assert door.claim("gpu02", token) == NO, "another node's token, and another address"
    assert door.claim("gpu02", token, X_Real_IP=door.head.address("gpu01")) == NO, "a header is nobody's address"
    status, content = door.claim("gpu01", token)
    assert status == 200
    assert set(json.loads(content)) == {"session", "node", "intent", "deployment"}
    assert door.claim("gpu01", token) == NO, "a second time"
    for garbage in ("", "x", "0" * 10_000, "' OR 1=1 --", json.loads(content)["session"]):
        assert door.claim("gpu01", garbage) == NO
    assert door.ask("gpu01", "POST", "/node/v1/claim", {"token": None}) == NO
    assert door.ask("gpu01", "POST", "/node/v1/claim", ["no", "object"]) == NO


def test_a_token_that_has_run_out_opens_nothing(door: Door) -> None:
    door.begin("gpu01")
    with door.change() as change:
        deadline = datetime.now(UTC) + timedelta(seconds=1.5)
        overdue = change.start_deployment(door.node("gpu01"), Intent.DEPLOY, deadline, "gpu@1")
        token = change.issue_token(overdue, door.head.address("gpu01"))
        spare = change.issue_token(overdue, door.head.address("gpu01"))
    status, content = door.claim("gpu01", token)
    assert status == 200, "in time"
    session = json.loads(content)["session"]
    time.sleep(max(0.0, (deadline - datetime.now(UTC)).total_seconds()))
    assert door.claim("gpu01", spare) == NO
    assert door.ask("gpu01", "GET", "/token") == NO
    for method, path in WITH_SESSION:
        assert door.ask("gpu01", method, path, session=session) == NO, path


def test_a_token_of_work_that_is_over_opens_nothing(door: Door) -> None:
    door.begin("gpu01")
    aborted = door.token("gpu01")
    session = door.claimed("gpu01")
    deploy.abort(door.head.context, ["gpu01"])
    assert door.claim("gpu01", aborted) == NO, "no deployment runs"
    assert door.ask("gpu01", "GET", "/token") == NO
    for method, path in WITH_SESSION:
        assert door.ask("gpu01", method, path, session=session) == NO, path
    door.begin("gpu01")
    assert door.claim("gpu01", aborted) == NO, "another deployment runs, and has tokens of its own"


def test_secrets_are_in_answers_to_a_claimed_deployment_and_nowhere_else(door: Door) -> None:
    door.begin("gpu01")
    door.begin("gpu02")
    token = door.token("gpu01")
    for method, path in WITH_SESSION:
        for wrong in ("", token, "x"):
            assert door.ask("gpu01", method, path, session=wrong) == NO, "before the claim"
    session = json.loads(door.claim("gpu01", token)[1])["session"]
    for method, path in WITH_SESSION:
        assert door.ask("gpu02", method, path, session=session) == NO, "from another address"
        assert door.ask("gpu02", method, path, session=session, X_Real_IP=door.head.address("gpu01")) == NO
    files = overlay(door, "gpu01", session)
    assert "OPENSSH PRIVATE KEY" in files["/etc/ssh/ssh_host_ed25519_key"]
    report = json.loads(files["/etc/headnode/report.json"])["token"]
    assert door.ask("gpu01", "GET", "/node/v1/overlay", session=report) == NO, "a report's token opens nothing"
    assert door.ask("gpu02", "POST", "/node/v1/verify", {"checks": []}, session=report) == NO


def overlay(door: Door, name: str, session: str) -> dict[str, str]:
    status, content = door.ask(name, "GET", "/node/v1/overlay", session=session)
    assert status == 200
    files: list[dict[str, Any]] = json.loads(content)["files"]
    return {file["path"]: base64.b64decode(file["content_base64"]).decode() for file in files}


def test_done_is_answered_when_the_disk_is_live_and_then_nothing_is_handed_out(door: Door) -> None:
    door.begin("gpu01")
    assert b"starts the ramdisk to deploy" in door.ask("gpu01", "GET", "/boot")[1]
    session = door.claimed("gpu01")
    assert door.ask("gpu01", "POST", "/node/v1/inventory", FACTS, session=session)[0] == 200
    status, content = door.ask("gpu01", "GET", "/node/v1/plan", session=session)
    assert (status, json.loads(content)["disks"][0]["serial"]) == (200, "S1")
    assert json.loads(content)["network_first"] is True
    assert door.ask("gpu01", "POST", "/node/v1/done", session=session)[0] == 200
    assert b"starts from its own disk" in door.ask("gpu01", "GET", "/boot")[1]
    assert door.head.context.inventory.deployed_disks(door.node("gpu01")) == {"system": "S1"}
    # The answer may have been lost: it is given again, and nothing happens twice.
    before = len(door.head.events("gpu01", "deployed"))
    assert door.ask("gpu01", "POST", "/node/v1/done", session=session)[0] == 200
    assert len(door.head.events("gpu01", "deployed")) == before
    for path in ("/node/v1/plan", "/node/v1/overlay"):
        assert door.ask("gpu01", "GET", path, session=session) == NO
    for path in ("/node/v1/inventory", "/node/v1/failed"):
        assert door.ask("gpu01", "POST", path, {"reason": "too late"}, session=session) == NO
    assert door.ask("gpu01", "GET", "/token") == NO
    assert door.node("gpu01").state is State.VERIFYING


@pytest.mark.parametrize("over", ["replaced", "done"])
def test_an_abandoned_agent_has_nothing_to_say_about_a_newer_deployment(door: Door, over: str) -> None:
    door.begin("gpu02")
    old = door.claimed("gpu02")
    if over == "done":
        assert door.ask("gpu02", "POST", "/node/v1/done", session=old)[0] == 200
        assert door.ask("gpu02", "POST", "/node/v1/events", {"events": []}, session=old)[0] == 200
        with door.change() as change:
            newer = change.start_deployment(door.node("gpu02"), Intent.DEPLOY, datetime.now(UTC) + timedelta(hours=1))
    else:
        door.begin("gpu02")
        newer = door.head.context.inventory.deployments([door.node("gpu02")])[0]
    state = door.node("gpu02").state
    for method, path in WITH_SESSION:
        assert door.ask("gpu02", method, path, {"reason": "old"}, session=old) == NO, path
    assert door.node("gpu02").state is state
    found = door.head.context.inventory.deployments([door.node("gpu02")])[0]
    assert (found.id, found.finished) == (newer.id, None)
    assert door.ask("gpu02", "POST", "/node/v1/events", {"events": []}, session=door.claimed("gpu02"))[0] == 200


def test_after_a_power_cut_only_the_new_agent_is_heard(door: Door) -> None:
    door.begin("gpu02")
    before, after = door.claimed("gpu02"), door.claimed("gpu02")
    assert door.ask("gpu02", "POST", "/node/v1/done", session=before) == NO
    assert door.node("gpu02").state is State.DEPLOYING
    assert door.ask("gpu02", "POST", "/node/v1/done", session=after)[0] == 200


def test_another_disk_in_the_old_ones_place_needs_consent(door: Door) -> None:
    """The disk is empty, and fits the layout; all that is wrong with it is that it is not the one of last time."""
    door.begin("gpu01")
    session = door.claimed("gpu01")
    swapped = {**FACTS, "disks": [{**FACTS["disks"][0], "serial": "S2"}]}  # type: ignore[dict-item]
    assert door.ask("gpu01", "POST", "/node/v1/inventory", swapped, session=session)[0] == 200
    status, content = door.ask("gpu01", "GET", "/node/v1/plan", session=session)
    assert status == 409
    assert "at the last deployment it was the disk with serial 'S1'" in json.loads(content)["reason"]
    assert "--erase S2" in str(door.node("gpu01").reason)
    assert door.node("gpu01").state is State.FAILED
    deploy.begin(door.head.context, ["gpu01"], Intent.DEPLOY, image="gpu@1", consent=["S2"])
    assert door.ask("gpu01", "GET", "/node/v1/plan", session=door.claimed("gpu01"))[0] == 200


def test_a_node_that_is_never_heard_of_again_has_a_reason(door: Door) -> None:
    door.begin("gpu03")
    session = door.claimed("gpu03")
    said = {"events": [{"kind": "step", "message": "9/19 make ext4 for /", "step": "make ext4 for /"}]}
    assert door.ask("gpu03", "POST", "/node/v1/events", said, session=session)[0] == 200
    with door.change() as change:
        change.replace([replace(change.nodes(["gpu03"])[0], deadline=datetime.now(UTC))])
    eventually(lambda: door.node("gpu03").state is State.FAILED)
    reason = str(door.node("gpu03").reason)
    assert reason.startswith("no end of deploying within 60 minutes: ")
    assert "make ext4 for /" in reason
    eventually(lambda: b"starts from its own disk" in door.ask("gpu03", "GET", "/boot")[1])
    assert door.ask("gpu03", "POST", "/node/v1/done", session=session) == NO
