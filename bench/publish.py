"""What does publishing cost? Run by hand: python bench/publish.py [--nodes 10000]

Enrols many nodes and publishes them, then changes one node and publishes that, with few and with many nodes in the
inventory. Prints the ratio of the two: publishing one node should cost the same whatever the size of the cluster.
"""

import argparse
import csv
import io
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headnode.paths import Paths
from headnode.workflows import enroll, init, nodes, publishing, sheet
from headnode.workflows.context import Context

ROUNDS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--few", type=int, default=100)
    arguments = parser.parse_args()
    with cluster(arguments.few) as few, cluster(arguments.nodes) as many:
        small, large = alternate(few, many)
    print(f"one node, {arguments.few} enrolled:   {small * 1000:8.1f} ms")
    print(f"one node, {arguments.nodes} enrolled: {large * 1000:8.1f} ms")
    print(f"ratio: {large / small:.2f} (aim: at most 1.5)")
    with cluster(1000) as thousand, clock("full render and publish of 1000 nodes"):
        outcome = publishing.publish_changes(thousand, full=True)
    print(f"  ({outcome.nodes} nodes compared)")


@contextmanager
def cluster(count: int) -> Iterator[Context]:
    with tempfile.TemporaryDirectory() as directory:
        paths = Paths(Path(directory))
        init.create(
            paths, init.Proposal("bench", "bench.test", provision_interface="hnprov0", management_interface="hnmgmt0")
        )
        context = Context(paths, "bench", "bench/publish.py")
        rows = sheet.read(nodes_csv(count), "nodes.csv", context.site)
        with clock(f"enrol {count} nodes"):
            enroll.enroll(context, rows)
        with clock(f"first publish of {count} nodes"):
            publishing.publish_changes(context)
        yield context


def alternate(few: Context, many: Context) -> tuple[float, float]:
    """Medians of one-node publishes, taken in turns so that a noisy moment hits both."""
    took: dict[int, list[float]] = {0: [], 1: []}
    for turn in range(ROUNDS):
        for index, context in enumerate((few, many)):
            name = f"gpu{turn + 1:05d}"
            nodes.set_fields(context, [name], {"kernel_args": f"turn={turn}"})
            start = time.perf_counter()
            outcome = publishing.publish_changes(context)
            took[index].append(time.perf_counter() - start)
            assert outcome.nodes == 1
    return statistics.median(took[0]), statistics.median(took[1])


def nodes_csv(count: int) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["name", "mac", "bmc", "profile", "rack", "position"])
    for i in range(1, count + 1):
        mac = f"52:54:00:{i >> 16:02x}:{i >> 8 & 255:02x}:{i & 255:02x}"
        writer.writerow([f"gpu{i:05d}", mac, f"10.21.{i >> 8}.{i & 255}", "gpu", f"r{i // 40}", i % 40 + 1])
    return stream.getvalue()


@contextmanager
def clock(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
