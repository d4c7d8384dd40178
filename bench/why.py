"""How long 'headnode why NODE' takes, with few and with many nodes that all have a long history.

The peer is the same site with few nodes: an answer about one node must not depend on how many there are.

    python -m bench.why                              200 nodes, 2,000 events each
    python -m bench.why --nodes 1000 --events 50000  what a large site has after a year; needs 15 GB of disk
"""

import argparse
import sqlite3
import statistics
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
        few = measure(Path(place) / "few", FEW, given.events)
        many = measure(Path(place) / "many", given.nodes, given.events)
    for count, (up, failed) in ((FEW, few), (given.nodes, many)):
        print(f"{count:5} nodes x {given.events} events: up {up * 1000:.1f} ms, failed {failed * 1000:.1f} ms (median)")
    print(f"many/few: up {many[0] / few[0]:.2f}, failed {many[1] / few[1]:.2f}")


def measure(root: Path, nodes: int, events: int) -> tuple[float, float]:
    """Median seconds for a node that is up, and for one that failed with its whole history since it was asked."""
    context = site(root, nodes)
    begun = time.monotonic()
    fill(context, nodes, events)
    print(f"{nodes} nodes x {events} events written in {time.monotonic() - begun:.0f} s", flush=True)
    try:
        return timed(context, range(2, nodes + 1)), timed(context, [1])
    finally:
        context.close()


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


def timed(context: Context, numbers: "range | list[int]") -> float:
    step = max(1, len(numbers) // SAMPLES)
    taken = []
    for number in [*numbers][::step] * (1 if len(numbers) > 1 else 5):
        begun = time.perf_counter()
        why.why(context, f"gpu{number:02}")
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
