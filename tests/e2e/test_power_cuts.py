"""The power goes at random points of a deployment; the next start completes it, every time.

Slow: by hand, `pytest tests/e2e/test_power_cuts.py -m slow -s`; HEADNODE_TEST_SEED chooses the points.
tests/e2e/test_deploy.py shows one cut at every landing.
"""

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.lab.machine import Firmware
from headnode.lab.qemu import RunningMachine
from headnode.lifecycle import WORKING
from headnode.model import State
from headnode.workflows import deploy
from images import tarball
from images.signing import signer
from images.store import IMAGE, Store
from tests.e2e.deployment import NAME, Rack, machine, rack
from tests.images import cached

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.timeout(3600),
    pytest.mark.program("ip", "dnsmasq", "nginx", "mmdebstrap", "zstd", "qemu-system-x86_64"),
]
SEED = int(os.environ.get("HEADNODE_TEST_SEED") or time.time())
GROUPS, CUTS_EACH = 4, 5
# How many seconds an agent needs for the small image; what the runs that are not cut need is known after the first.
FIRST_GUESS = 20.0


@pytest.fixture(scope="module")
def small_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test image without kernel and modules: what is never started need not be unpacked twenty times."""
    place = tmp_path_factory.mktemp("small")
    filled = place / "filled"
    filled.mkdir()
    source = cached.node_image().directory / IMAGE
    with (
        (filled / IMAGE).open("wb") as target,
        subprocess.Popen(["zstd", "-dcq", "--long=31", source], stdout=subprocess.PIPE) as unpack,
        subprocess.Popen(["zstd", "-q", "-c"], stdin=subprocess.PIPE, stdout=target) as pack,
    ):
        assert unpack.stdout is not None
        assert pack.stdin is not None
        seen = tarball.copy(
            unpack.stdout, pack.stdin, drop=["usr/lib/modules/*", "boot/*"], replace={}, mtime=cached.EPOCH
        )
    assert (unpack.returncode, pack.returncode) == (0, 0)
    store = Store(place / "images")
    store.root.mkdir()
    store.publish("node", filled, {"unpacked_size": seen.unpacked}, signer(place / "key"))
    return store.root


@pytest.fixture
def at(tmp_path: Path, small_images: Path) -> Iterator[Rack]:
    with rack(tmp_path, "p", small_images) as made:
        yield made


@pytest.mark.parametrize("group", range(GROUPS))
def test_wherever_the_power_goes_the_next_start_completes(at: Rack, tmp_path: Path, group: int) -> None:
    points = random.Random(SEED + group)
    print(f"seed {SEED}, group {group}")  # noqa: T201
    with machine(at, tmp_path, Firmware.BIOS) as node:
        at.enroll()
        whole = FIRST_GUESS
        for number in range(CUTS_EACH):
            begin(at)
            moment = points.uniform(0, whole + 1)
            start(at, node)
            time.sleep(moment)
            node.power_off()
            cut_at = (
                f"cut {number + 1}: {moment:.1f} of {whole:.1f} s, {at.node.state}, {at.work.step} {at.work.percent} %"
            )
            assert at.node.state in (State.DEPLOYING, State.VERIFYING), cut_at
            if at.node.state is State.DEPLOYING:
                whole = claimed_until_done(at, node)
            else:
                starts_from_disk(node)
            print(cut_at)  # noqa: T201
            assert at.work.result == "done"
    failed = [work for work in at.head.context.inventory.deployments([at.node]) if work.result != "done"]
    assert failed == []


def begin(at: Rack) -> None:
    if at.node.state in WORKING:
        # Nothing is started here that could verify itself.
        deploy.abort(at.head.context, [NAME])
    at.begin()


def start(at: Rack, node: RunningMachine) -> None:
    claims = len(at.head.events(NAME, "agent.claimed"))
    node.power_on()
    at.until(lambda: len(at.head.events(NAME, "agent.claimed")) > claims)


def claimed_until_done(at: Rack, node: RunningMachine) -> float:
    """A whole run, and how long its agent took."""
    start(at, node)
    begun = time.monotonic()
    at.until_state(State.VERIFYING)
    took = time.monotonic() - begun
    node.power_off()
    return took


def starts_from_disk(node: RunningMachine) -> None:
    """It was done before the power went."""
    node.power_on()
    node.wait_for(f"Headnode: {NAME} starts from its own disk", 240)
    node.power_off()
