"""What does publishing cost? Run by hand: python bench/publish.py [--nodes 10000]

Enrols many nodes and publishes them, then changes one node and publishes that, with few and with many nodes in the
inventory. Prints the ratio of the two: publishing one node should cost the same whatever the size of the cluster.
"""

import argparse
import csv
import io
import statistics
import subprocess
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
    parser.add_argument("--cobbler", metavar="PYTHON", help="a Python that has Cobbler, to print the ratio to its sync")
    arguments = parser.parse_args()
    with cluster(arguments.few) as few, cluster(arguments.nodes) as many:
        small, large = alternate(few, many)
    print(f"one node, {arguments.few} enrolled:   {small * 1000:8.1f} ms")
    print(f"one node, {arguments.nodes} enrolled: {large * 1000:8.1f} ms")
    print(f"ratio: {large / small:.2f} (aim: at most 1.5)")
    beside_cobbler(arguments.cobbler)


def beside_cobbler(python: str | None) -> None:
    """A first publish of 1,000 nodes writes what Cobbler's sync writes anew each time."""
    with unpublished(1000) as thousand:
        start = time.perf_counter()
        publishing.publish_changes(thousand)
        first = time.perf_counter() - start
        start = time.perf_counter()
        publishing.publish_changes(thousand, full=True)
        again = time.perf_counter() - start
    print(f"1000 nodes: all rendered, checked and written {first:.2f} s; rendered and compared again {again:.2f} s")
    if python is not None:
        script = Path(__file__).with_name("cobbler_sync.py")
        said = subprocess.run([python, script, "1000"], capture_output=True, text=True, check=True).stdout
        theirs = float(said.splitlines()[-1])
        print(f"Cobbler's sync of 1000 systems: {theirs:.2f} s; ours is {first / theirs:.2f} of that")


@contextmanager
def cluster(count: int) -> Iterator[Context]:
    with unpublished(count) as context:
        with clock(f"first publish of {count} nodes"):
            publishing.publish_changes(context)
        yield context


@contextmanager
def unpublished(count: int) -> Iterator[Context]:
    with tempfile.TemporaryDirectory() as directory:
        paths = Paths(Path(directory))
        init.create(
            paths, init.Proposal("bench", "bench.test", provision_interface="hnprov0", management_interface="hnmgmt0")
        )
        context = Context(paths, "bench", "bench/publish.py")
        rows = sheet.read(nodes_csv(count), "nodes.csv", context.site)
        with clock(f"enrol {count} nodes"):
            enroll.enroll(context, rows)
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
