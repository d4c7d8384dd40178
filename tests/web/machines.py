"""A seeded site with real BMCs, a console that answers, an agent that works, and the people's door in front of it."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headnode.model import Intent, State
from headnode.paths import Paths
from headnode.web import vendor
from headnode.workflows import deploy, publishing
from headnode.workflows.context import Context
from tests.integration.bmc_site import BmcSite, SerialLine, bmc_site, daemon
from tests.web import seed
from tests.web.door import PASSWORD, Door, choose_port, door

HERE = Path(__file__).parent
PAGES = {
    "cluster": "/", "nodes": "/nodes", "node": "/nodes/gpu01", "failed-node": "/nodes/gpu026",
    "files": "/nodes/gpu01/files", "confirm": "/act/power-off?nodes=gpu[01-03]", "racks": "/racks",
    "racks-temperature": "/racks?by=temperature", "enrol": "/enrol", "images": "/images", "image": "/images/gpu@2",
    "people": "/people", "account": "/account", "site": "/site", "audit": "/audit",
}  # fmt: skip


@dataclass
class Lab:
    site: BmcSite
    door: Door
    line: SerialLine

    def run(self, script: str, **more: str) -> dict[str, Any]:
        """A script of ours in the browser; it prints one line of JSON."""
        env = {**os.environ, "BASE": self.door.base, "PASSWORD": PASSWORD, **more}
        done = subprocess.run(["node", str(HERE / script)], env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def fetch_browser() -> None:
    """What npm brings: the pages' scripts and what drives the browser; versions as the lock files name them."""
    if not (vendor.TARGET / "htmx.min.js").exists():
        vendor.fetch()
    if not (HERE / "node_modules/playwright-core").exists():
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, check=True, timeout=300)


@contextmanager
def lab(directory: Path) -> Iterator[Lab]:
    fetch_browser()
    line = SerialLine()
    with bmc_site(directory, 3, serial_ports=[line.port], rack="r1") as site:
        seed.tidy(site.root)
        choose_port(site.root)
        with site.context() as context:
            seed.day(context, ["gpu01"])
            settle(context)
        for machine in site.machines.values():
            machine.on = True
        threading.Thread(target=answer_typing, args=(line,), daemon=True).start()
        try:
            with daemon(site.root), door(site.root) as made:
                yield Lab(site, made, line)
        finally:
            line.close()


def settle(context: Context) -> None:
    with context.inventory.change("seed", "seed") as change:
        ours = change.nodes(["gpu01", "gpu02", "gpu03"])
        change.replace([replace(node, position=2 + 2 * index, state=State.UP) for index, node in enumerate(ours)])
        change.remember_hardware(ours[0], seed.HARDWARE)
    seed.lock(context, "gpu02")
    publishing.publish_changes(context)


def answer_typing(line: SerialLine) -> None:
    """A machine's login prompt, near enough: it says what was typed."""
    answered = 0
    line.say("\r\ngpu01 login: ")
    while line.server.fileno() >= 0:
        *lines, _ = line.typed.replace(b"\n", b"").split(b"\r")
        for typed in lines[answered:]:
            line.say(f"\r\nyou typed {typed.decode(errors='replace')}\r\ngpu01 login: ")
        answered = len(lines)
        time.sleep(0.05)


def play_agent(root: Path, name: str) -> threading.Thread:
    """Take up the deployment of a node as its agent would, through the workflows that the nodes' door calls."""

    def work() -> None:
        context = Context(Paths(root), "agent", "a test")
        try:
            while context.inventory.nodes([name])[0].intent is not Intent.DEPLOY:
                time.sleep(0.1)
            act(context, name)
        finally:
            context.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def act(context: Context, name: str) -> None:
    (node,) = context.inventory.nodes([name])
    address = node.address or ""
    time.sleep(1.5)
    claimed = deploy.claim(context, deploy.token_for(context, address) or "", address)
    assert claimed is not None
    deploy.report_hardware(context, node, seed.HARDWARE)
    for step, percent in (("partition disks", 5), ("stream image", 40), ("stream image", 80), ("boot loader", 95)):
        said: list[Mapping[str, Any]] = [{"kind": "step", "message": step, "step": step, "percent": percent}]
        deploy.progress(context, claimed.deployment, said)
        time.sleep(0.8)
    deploy.done(context, claimed.deployment, node)
    checks = [{"name": "host name", "ok": True}, {"name": "clock", "ok": True, "offset_ms": 0.4}]
    deploy.verified(context, node, checks)
