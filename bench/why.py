"""How long 'headnode why NODE' takes, with few and with many nodes that all have a long history.

The peer is the same site with few nodes: an answer about one node must not depend on how many there are.

    python -m bench.why                              200 nodes, 2,000 events each
    python -m bench.why --nodes 1000 --events 50000  what a large site has after a year; needs 15 GB of disk
"""

import argparse
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from headnode.model import Intent, Severity, State
from headnode.paths import Paths
from headnode.workflows import deploy, enroll, init, publishing, why
from headnode.workflows.context import Context
from tests.conftest import GIVEN
from tests.support import row_of

FEW = 10
SAMPLES = 40
COMMANDS = 5
BATCH = 1000
# One event of every node, then the next of every node; three kinds by turns.
ROWS = """
WITH RECURSIVE number(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM number WHERE i < :last)
INSERT INTO events (at, node, kind, severity, actor, cause, message, data)
SELECT strftime('%Y-%m-%d %H:%M:%S', :begin, '+' || (i / 10) || ' seconds') || printf('.%06d', (i % 10) * 100000), name,
    CASE i % 3 WHEN 0 THEN 'http' WHEN 1 THEN 'dhcp.ack' ELSE 'sensor' END, 'info', 'boot plane', '',
    CASE i % 3 WHEN 0 THEN 'GET /packages/' || i || ': 200' WHEN 1 THEN 'got 10.20.1.1'
        ELSE 'CPU1 Temp is well again at 60 C' END,
    CASE i % 3 WHEN 0 THEN '{"method":"GET","path":"/packages/' || i || '","status":200,"bytes":9}'
        WHEN 1 THEN '{"verb":"DHCPACK","interface":"eth0","address":"10.20.1.1"}'
        ELSE '{"sensor":"CPU1 Temp","value":60.0,"health":"ok"}' END
FROM number CROSS JOIN nodes
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--events", type=int, default=2000, help="for each node")
    parser.add_argument("--directory", type=Path, help="where the database is made; a temporary one when not given")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as place:
        sizes = {FEW: Path(place) / "few", given.nodes: Path(place) / "many"}
        sites = {nodes: filled(root, nodes, given.events) for nodes, root in sizes.items()}
        for what, number in (("up", 2), ("failed", 1)):
            few, many = (taken[nodes] for taken in [timed(sites, number)] for nodes in sites)
            print(
                f"{what}: {few * 1000:.1f} ms of {FEW} nodes, {many * 1000:.1f} ms of {given.nodes}: {many / few:.2f}"
            )
        for nodes, context in sites.items():
            clock, processor = asked_by_command(context.paths.root)
            print(f"'headnode why gpu01' of {nodes} nodes, the command: {clock:.2f} s, {processor:.2f} s of a core")
        for context in sites.values():
            context.close()


def filled(root: Path, nodes: int, events: int) -> Context:
    """gpu01 failed with its whole history since it was asked, the others are up."""
    context = site(root, nodes)
    begun = time.monotonic()
    fill(context, nodes, events)
    print(f"{nodes} nodes x {events} events written in {time.monotonic() - begun:.0f} s", flush=True)
    return context


def site(root: Path, nodes: int) -> Context:
    init.create(Paths(root), GIVEN)
    context = Context(Paths(root), "bench", "bench")
    rows = [row_of(n) for n in range(1, nodes + 1)]
    assert enroll.enroll(context, rows).problems == []
    with context.inventory.change("bench", "bench") as change:
        change.replace([replace(node, state=State.UP) for node in change.nodes()])
    publishing.publish_changes(context)
    # One is asked for something and has its whole history after that: the longest way back.
    deploy.begin(context, ["gpu01"], Intent.DEPLOY, image="base@1")
    return context


def fill(context: Context, nodes: int, events: int) -> None:
    """Written past the product, by SQLite alone, in the order things happen: all nodes side by side."""
    context.inventory.close()  # a connection that is opened anew finds the database as it was configured
    begin = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    database = sqlite3.connect(context.paths.database, isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -200000"):
        database.execute(f"PRAGMA {pragma}")
    (index,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'ix_events_node_id'").fetchone()
    database.execute("DROP INDEX ix_events_node_id")
    for first in range(0, events, BATCH):
        database.execute(ROWS, {"first": first, "last": min(first + BATCH, events) - 1, "begin": begin})
    database.execute(index)
    database.close()
    with context.inventory.change("bench", "bench") as change:
        node = change.nodes(["gpu01"])[0]
        change.record("failed", "deploying: no end of deploying", node=node.name, severity=Severity.ERROR)
        change.replace([replace(node, state=State.FAILED, reason="no end of deploying", deadline=None)])
    publishing.publish_changes(context)


def timed(sites: dict[int, Context], number: int) -> dict[int, float]:
    """Median seconds for one node at each site, asked by turns: whatever else the machine does, both suffer it."""
    taken: dict[int, list[float]] = {nodes: [] for nodes in sites}
    for _ in range(SAMPLES):
        for nodes, context in sites.items():
            # Another node each time, so that nothing is found in a cache that would not be there.
            name = "gpu01" if number == 1 else f"gpu{2 + len(taken[nodes]) * 7 % (nodes - 1):02}"
            begun = time.perf_counter()
            why.why(context, name)
            taken[nodes].append(time.perf_counter() - begun)
    return {nodes: statistics.median(seconds) for nodes, seconds in taken.items()}


def asked_by_command(root: Path) -> tuple[float, float]:
    """Median seconds of the whole command, with Python's start and the site's: on the clock, and of the processor."""
    taken: list[float] = []
    worked = working()
    for _ in range(COMMANDS):
        begun = time.perf_counter()
        argv = [sys.executable, "-m", "headnode", "why", "gpu01"]
        environment = {**os.environ, "HEADNODE_ROOT": str(root)}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        taken.append(time.perf_counter() - begun)
        assert done.returncode == 1, done.stderr
    return statistics.median(taken), (working() - worked) / COMMANDS


def working() -> float:
    """Seconds that processes which have ended have kept a processor busy."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
