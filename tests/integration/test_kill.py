"""kill -9 at random moments of enrolling and publishing, while somebody reads all that is published.

No file is ever torn, no node is ever half there, and the next run finishes the job. The moments are random; the seed
is printed, and HEADNODE_TEST_SEED repeats a run.
"""

import contextlib
import os
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headnode.model import BmcAccess, Nic, Node, State
from headnode.paths import Paths
from headnode.publish import Workplace
from headnode.site import Site
from headnode.workflows import enroll, nodes, publishing
from headnode.workflows.context import Context
from pxe.boot import BootScripts
from pxe.dnsmasq import Dnsmasq
from tests.support import bmc, mac, row

pytestmark = pytest.mark.integration

MOMENTS = 100
BATCH = 4
WRITTEN_IN_PLACE = 3
# What Python tells about itself before it does it; a kill before the n-th of these is a moment that can be repeated.
STEPS = frozenset({"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect"})


def name_of(number: int) -> str:
    return f"gpu{number:04}"


def other_mac(number: int) -> str:
    return mac(number).replace("52:54", "52:55")


def job(root: Path, batch: int) -> None:
    """Enrol a batch, change a node of the one before, retire a node of the one before that, and publish."""
    sys.addaudithook(refuse_writing_below(f"{Paths(root).published}/"))
    context = Context(Paths(root), "tester", "a test")
    first = batch * BATCH + 1
    numbers = range(first, first + BATCH)
    enroll.enroll(
        context, [row(name=name_of(n), mac=mac(n), bmc=bmc(n), profile="gpu") for n in numbers]
    )  # fmt: skip
    if batch >= 1:
        nodes.set_fields(context, [name_of(first - BATCH)], {"mac": other_mac(first - BATCH)})
    if batch >= 2 and context.inventory.nodes([name_of(first - 2 * BATCH + 1)]):
        nodes.retire(context, [name_of(first - 2 * BATCH + 1)])
    publishing.publish_changes(context)
    context.close()


def refuse_writing_below(live: str) -> Callable[[str, tuple[Any, ...]], None]:
    """A reader would have to be lucky to see a file while it is written in place; this sees it every time."""

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and str(args[0]).startswith(live) and args[2] & (os.O_WRONLY | os.O_RDWR):
            os.write(2, f"{args[0]} is written in place\n".encode())
            os._exit(WRITTEN_IN_PLACE)

    return watch


def forked(work: Callable[[], None]) -> int:
    """Do this in a process of its own; everything is imported already, so that it starts at once."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - pytest must not go on in this process, whatever happens
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def finished(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def steps_of(work: Callable[[], None]) -> int:
    """How many steps it takes, told by a process that does them all."""
    read, write = os.pipe()
    taken = [0]

    def count(event: str, args: object) -> None:
        taken[0] += event in STEPS

    def counted() -> None:
        sys.addaudithook(count)
        work()
        os.write(write, str(taken[0]).encode())

    assert finished(forked(counted)) == 0
    os.close(write)
    with os.fdopen(read) as pipe:
        return int(pipe.read())


def killed_at_step(work: Callable[[], None], step: int) -> int:
    left = [step]

    def count(event: str, args: object) -> None:
        if event in STEPS:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def doomed() -> None:
        sys.addaudithook(count)
        work()

    return finished(forked(doomed))


def killed_after(work: Callable[[], None], seconds: float) -> int:
    pid = forked(work)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return finished(pid)


# The reader.


class Torn(Exception):
    pass


def valid(site: Site, dnsmasq: Dnsmasq, whole: dict[str, bytes], path: str, content: bytes) -> bool:
    """Whether this is, byte for byte, what some state of its node is rendered as."""
    found = re.search(rb"for node gpu(\d{4})", content)
    if not found:
        return whole.get(path) == content
    number = int(found[1])
    address = re.search(rb"\b10\.20\.\d+\.\d+\b", content.split(b"\n", 1)[1]) if "dnsmasq" in path else None
    at = address[0].decode() if address else path.removeprefix("http/boot/").removesuffix(".ipxe")
    for written in (mac(number), other_mac(number)):
        node = Node(name_of(number), "gpu", (Nic(written, address=at),), BmcAccess(bmc(number)))
        files = {**BootScripts().node_files(site, node), **dnsmasq.node_files(site, node)}
        if path in files and files[path].content == content:
            return True
    return False


def read_for_ever(context: Context, result: Path, stop: Path) -> None:
    live, site = context.paths.published, context.site
    dnsmasq = Dnsmasq(context.paths)
    made = [producer.site_files(site) for producer in publishing.producers(context)]
    whole = {name: file.content for files in made for name, file in files.items()}
    reads = 0
    seen: set[tuple[str, bytes]] = set()
    while not stop.exists():
        for path in sorted(live.rglob("*")):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                content, name = path.read_bytes(), str(path.relative_to(live))
                reads += 1
                if (name, content) not in seen and not valid(site, dnsmasq, whole, name, content):
                    raise Torn(f"{name}: {content!r}")
                seen.add((name, content))
        result.write_text(str(reads))


@contextlib.contextmanager
def reader(context: Context, directory: Path) -> Iterator[Path]:
    result, stop = directory / "reads", directory / "stop"
    pid = forked(lambda: read_for_ever(context, result, stop))
    try:
        yield result
    finally:
        stop.touch()
        code = finished(pid)
    assert code == 0, "the reader has seen a torn file"


# What must be true at every moment, and when the job is done.


def check_nodes(context: Context) -> set[str]:
    """Every node is there with all that it has, or not at all."""
    enrolled = Counter(event.node for event in context.inventory.events(limit=100_000) if event.kind == "enroll")
    found = context.inventory.nodes(retired=True)
    for node in found:
        assert enrolled[node.name] == 1
        if node.state is not State.RETIRED:
            assert node.mac
            assert node.address
            assert node.bmc
    addresses = [node.address for node in found if node.address]
    assert len(addresses) == len({*addresses})
    assert set(enrolled) == {node.name for node in found}
    return {node.name for node in found}


def moment_of_death(context: Context, batch: int, code: int) -> str:
    """Where in the job it was, told by what it left behind."""
    names = {name_of(batch * BATCH + 1 + n) for n in range(BATCH)}
    place = Workplace(context.paths.published)
    if code == 0:
        return "after everything"
    if not names <= check_nodes(context):
        return "before it was enrolled"
    live = [(place.live / "dnsmasq/provision.d" / name).exists() for name in names]
    if place.journal.exists():
        return "during the swap" if (place.new / "dnsmasq").exists() and place.old.exists() else "around the swap"
    return "after the swap" if all(live) else "before the swap"


def check_finished(context: Context) -> None:
    place = Workplace(context.paths.published)
    assert publishing.preview(context) == []
    on_disk = {str(path.relative_to(place.live)) for path in place.live.rglob("*") if path.is_file()}
    assert on_disk == set(context.inventory.published_files())
    assert not place.transaction.exists()


def test_a_kill_at_any_moment_tears_nothing_and_the_next_run_finishes_the_job(root: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("HEADNODE_TEST_SEED", random.SystemRandom().randrange(1_000_000)))
    print(f"HEADNODE_TEST_SEED={seed}")  # noqa: T201 - so that it can be repeated
    chance = random.Random(seed)
    context = Context(Paths(root), "tester", "a test")
    for batch in (0, 1):
        assert finished(forked(lambda batch=batch: job(root, batch))) == 0  # type: ignore[misc]
    steps = steps_of(lambda: job(root, 2))
    began = time.monotonic()
    assert finished(forked(lambda: job(root, 3))) == 0
    usual = time.monotonic() - began
    deaths: Counter[str] = Counter()
    batch = 4
    with reader(context, tmp_path) as result:
        for number in range(MOMENTS):
            work = lambda batch=batch: job(root, batch)  # noqa: E731
            if number % 3:
                code = killed_at_step(work, 1 if number == 1 else chance.randint(1, steps))
            else:
                code = killed_after(work, chance.uniform(0, usual))
            assert code in (0, -signal.SIGKILL)
            deaths[moment_of_death(context, batch, code)] += 1
            check_nodes(context)
            # Some of those that come to finish the job are killed at it, too.
            if chance.random() < 0.6:
                assert finished(forked(work)) == 0
                check_finished(context)
                batch += 1
            context.close()
    print(dict(deaths), f"{result.read_text()} reads")  # noqa: T201
    assert int(result.read_text()) > MOMENTS
    for moment in ("before it was enrolled", "before the swap", "during the swap", "after the swap"):
        assert deaths[moment], deaths
