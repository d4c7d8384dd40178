"""How usable are the pages and the API with 10,000 nodes? Run by hand: python bench/web.py [--ironic URL]

The table of nodes in Chromium with 10,000 nodes beside 100, the list of 5,000 nodes over the API beside Ironic's when
one with as many nodes is running at URL, and what 200 open pages cost those who ask.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from headnode.model import Severity
from headnode.paths import Paths
from headnode.workflows import init
from headnode.workflows.context import Context
from tests.conftest import GIVEN
from tests.web import seed
from tests.web.door import PASSWORD, Door, door, first_admin
from tests.web.machines import fetch_browser

ROUNDS = 5
OPEN_PAGES = 200


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--ironic", help="address of an Ironic API with 5,000 nodes")
    given = options.parse_args()
    fetch_browser()
    small, large = browser(100), browser(10_000)
    for what in ("first", "keys"):
        words = {"first": "first content", "keys": "keystroke to result (120 ms of it wait for the next key)"}[what]
        print(f"{words}: {large[what]:.0f} ms with 10,000 nodes, {large[what] / small[what]:.2f} times that with 100")
    with site(5_000) as made:
        ours = listing(made)
        print(f"API, all fields of 5,000 nodes: {ours * 1000:.0f} ms")
        if given.ironic:
            theirs = best(lambda: ironic(given.ironic))
            print(f"Ironic, 5,000 nodes with details: {theirs * 1000:.0f} ms, {theirs / ours:.1f} times ours")
        open_pages(made)


class site:
    """A door in front of so many seeded nodes, with an admin inside."""

    def __init__(self, count: int) -> None:
        self.scratch = tempfile.TemporaryDirectory()
        self.root = Path(self.scratch.name) / "root"
        init.create(Paths(self.root), GIVEN)
        context = Context(Paths(self.root), "bench", "bench")
        seed.many(context, count)
        context.close()
        self.opened = door(self.root)

    def __enter__(self) -> Door:
        return first_admin(self.opened.__enter__())

    def __exit__(self, *_: object) -> None:
        self.opened.__exit__(None, None, None)
        self.scratch.cleanup()


def browser(count: int) -> dict[str, float]:
    words = "gpu042 gpu[010-099] gpu011,gpu033 @h100"
    with site(count) as made:
        env = {**os.environ, "BASE": made.base, "PASSWORD": PASSWORD, "ROUNDS": str(ROUNDS), "WORDS": words}
        script = Path(__file__).with_suffix(".mjs")
        done = subprocess.run(["node", str(script)], env=env, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout.splitlines()[-1])
    return {what: statistics.median(found[what]) for what in ("first", "keys")}


def listing(made: Door) -> float:
    def ask() -> None:
        answer = made.ask("/api/v1/nodes?limit=10000")
        assert len(answer.json()["items"]) == 5_000

    return best(ask)


def ironic(address: str) -> None:
    """Page by page: it gives at most a thousand at once."""
    seen, url = 0, f"{address}/v1/nodes/detail?limit=1000"
    while url:
        request = urllib.request.Request(url, headers={"X-OpenStack-Ironic-API-Version": "1.80"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            said = json.load(answer)
        seen, url = seen + len(said["nodes"]), said.get("next", "")
    assert seen == 5_000, seen


def best(ask: Callable[[], None]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def open_pages(made: Door) -> None:
    def ask() -> None:
        assert made.ask("/api/v1/nodes?limit=100").status == 200

    before = best(ask)
    heard: list[float] = []
    waiting = threading.Barrier(OPEN_PAGES + 1)
    cookie = "; ".join(f"{key}={value}" for key, value in made.cookies.items())

    def follow() -> None:
        request = urllib.request.Request(made.base + "/live", headers={"Cookie": cookie})
        with urllib.request.urlopen(request, timeout=60) as stream:
            stream.readline()
            waiting.wait()
            for line in stream:
                if line.startswith(b"data:"):
                    heard.append(time.perf_counter())
                    return

    threads = [threading.Thread(target=follow, daemon=True) for _ in range(OPEN_PAGES)]
    for thread in threads:
        thread.start()
    waiting.wait()
    during = best(ask)
    context = Context(Paths(made.root), "bench", "bench")
    with context.inventory.change("bench", "bench") as change:
        change.record("bench", "something happened", severity=Severity.INFO)
    told = time.perf_counter()
    for thread in threads:
        thread.join(30)
    context.close()
    print(f"{OPEN_PAGES} open pages: others' questions take {during / before:.2f} times as long; "
          f"all {len(heard)} pages heard within {(max(heard) - told) * 1000:.0f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
