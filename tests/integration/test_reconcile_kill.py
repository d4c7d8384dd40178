"""kill -9 of headnode-reconcile at a hundred random points of four concurrent deployments."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headnode.lifecycle import WORKING
from headnode.model import Intent, State
from headnode.paths import Paths
from headnode.services import node_door
from headnode.workflows import deploy, enroll, publishing
from headnode.workflows.context import Context
from images.signing import signer
from images.store import Store
from tests.images.test_store import MANIFEST
from tests.integration.agents import Agent, Disks
from tests.integration.bmc_site import eventually
from tests.support import mac, row

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
KILLS = 100
NODES = ("n1", "n2", "n3", "n4")
# Way to live → how it must end, and a word of the reason.
ENDS = {
    "good": (State.UP, ""),
    "says_done_again": (State.UP, ""),
    "is_forged": (State.UP, ""),
    "loses_power": (State.UP, ""),
    "is_wrong": (State.FAILED, "it is localhost"),
    "gives_up": (State.FAILED, "the disk is on fire"),
    "falls_silent": (State.FAILED, "the agent was last heard at 'partition'"),
    "never_comes": (State.FAILED, "no DHCP request seen"),
}
SILENT = ("falls_silent", "never_comes")


class Loop:
    """headnode-reconcile, killed and started again until it has been killed often enough."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.chance = chance
        self.log = (root / "reconcile.log").open("ab")
        environment = {**os.environ, "HEADNODE_ROOT": str(root)}
        self.forker = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.forker"], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log,
        )  # fmt: skip
        self.kills = 0
        self.alive = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def start(self) -> int:
        assert self.forker.stdin
        assert self.forker.stdout
        self.forker.stdin.write(b"\n")
        self.forker.stdin.flush()
        return int(self.forker.stdout.readline())

    def run(self) -> None:
        while not self.over.is_set():
            pid = self.start()
            if self.kills < KILLS:
                self.over.wait(self.chance.random() * 0.5)
                os.kill(pid, signal.SIGKILL)
                self.kills += 1
            else:
                self.over.wait()
                os.kill(pid, signal.SIGTERM)

    def stop(self) -> None:
        self.over.set()
        self.thread.join(30)
        assert self.forker.stdin
        self.forker.stdin.close()
        self.forker.wait(30)
        assert self.forker.stdout
        self.forker.stdout.close()
        self.log.close()


@pytest.fixture
def site(root: Path, tmp_path: Path) -> Iterator[Context]:
    context = Context(root_paths(root), "tester", "a test")
    rows = [row(name=name, mac=mac(n), profile="cpu") for n, name in enumerate(NODES, 1)]
    assert enroll.enroll(context, rows).problems == []
    publishing.publish_changes(context)
    filled = tmp_path / "filled"
    filled.mkdir()
    (filled / "image.tar.zst").write_bytes(b"an image")
    (filled / "packages.json").write_text("[]")
    Store(context.paths.state / "images").publish("base", filled, MANIFEST, signer(context.paths.config))
    context.paths.runtime.mkdir(parents=True, exist_ok=True)
    context.paths.logs.mkdir(parents=True, exist_ok=True)
    with door(context):
        yield context
    context.close()


def root_paths(root: Path) -> Paths:
    return Paths(root)


@contextmanager
def door(context: Context) -> Iterator[None]:
    """The node API as the supervisor starts it."""
    service = node_door(context.paths)
    with (context.paths.logs / "node-api.log").open("ab") as log:
        process = subprocess.Popen(
            service.argv, env={**os.environ, **service.environment}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        eventually(service.ready, 30)
        yield
    finally:
        process.terminate()
        process.wait(20)


def deploy_all(context: Context, disks: Disks, ways: list[str], chance: random.Random) -> dict[str, Agent]:
    """Four deployments at once; returns when every agent has lived its life."""
    deploy.begin(context, NODES, Intent.DEPLOY, image="base@1")
    agents: dict[str, Agent] = {}
    troubles: list[str] = []

    def live(agent: Agent, way: str) -> None:
        try:
            getattr(agent, way)()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            troubles.append(f"{agent.name} {way}: {error!r}")

    threads = []
    for node, way in zip(context.inventory.nodes(NODES), ways, strict=True):
        socket = context.paths.runtime / "node.sock"
        agents[node.name] = Agent(socket, node.name, str(node.address), disks, random.Random(chance.random()))
        threads.append(threading.Thread(target=live, args=(agents[node.name], way)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    hurry(context, [name for name, way in zip(NODES, ways, strict=True) if way in SILENT])
    return agents


def hurry(context: Context, names: list[str]) -> None:
    """What would take an hour takes a few seconds. Published, because an unpublished change is a cause of its own."""
    with context.inventory.change("test", "time passes") as change:
        soon = datetime.now(UTC) + timedelta(seconds=3)
        change.replace([replace(node, deadline=soon) for node in change.nodes(names)])
    publishing.publish_changes(context)


def test_whatever_is_killed_every_deployment_ends_and_erases_once(site: Context) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")  # noqa: T201 - shown beside a failure
    chance = random.Random(seed)
    disks, ended = Disks(), 0
    loop = Loop(site.paths.root, chance)
    try:
        while loop.kills < KILLS:
            ways = chance.sample(sorted(ENDS), 4)
            deploy_all(site, disks, ways, chance)
            eventually(lambda: all(node.state not in WORKING for node in site.inventory.nodes(NODES)), 120)
            for node, way in zip(site.inventory.nodes(NODES), ways, strict=True):
                state, words = ENDS[way]
                assert (node.state, words in str(node.reason)) == (state, True), f"{way}: {node.state} {node.reason}"
                assert node.intent is Intent.DISK
                assert node.deadline is None
            ended += len(ways)
    finally:
        loop.stop()
    print(f"{ended} deployments, {loop.kills} kills, {sum(disks.erased.values())} disks erased")  # noqa: T201
    assert loop.kills >= KILLS
    assert set(disks.erased.values()) == {1}, "no boot erases twice"
    assert pieces_left(site) == []
    # What is live is what the database says: nobody would be told to deploy again.
    for node in site.inventory.nodes(NODES):
        script = (site.paths.published / f"http/boot/{node.address}.ipxe").read_text()
        assert "starts from its own disk" in script


def pieces_left(site: Context) -> list[str]:
    found = site.inventory.deployments(site.inventory.nodes(NODES), limit_each=1000)
    return [f"{work.node} {work.id}" for work in found if work.finished is None]


def test_only_one_leads(site: Context) -> None:
    held = site.inventory.lead("reconcile")
    assert held is not None
    other = Context(site.paths, "other", "test")
    assert other.inventory.lead("reconcile") is None
    held.release()
    again = other.inventory.lead("reconcile")
    assert again is not None
    assert again.held()
    again.release()
    other.close()


def test_who_does_not_lead_ends_nothing(site: Context) -> None:
    """A second loop beside one that leads: the deadline passes, and it is not its business."""
    held = site.inventory.lead("reconcile")
    assert held is not None
    deploy.begin(site, NODES[:1], Intent.DEPLOY, image="base@1")
    hurry(site, ["n1"])
    environment = {**os.environ, "HEADNODE_ROOT": str(site.paths.root)}
    second = subprocess.Popen([sys.executable, "-m", "headnode.reconcile"], env=environment, stderr=subprocess.DEVNULL)
    try:
        time.sleep(6)
        assert site.inventory.nodes(["n1"])[0].state is State.DEPLOYING
        held.release()
        eventually(lambda: site.inventory.nodes(["n1"])[0].state is State.FAILED, 20)
    finally:
        second.terminate()
        second.wait(20)
