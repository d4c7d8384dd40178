"""Bad BMCs as an admin meets them: each has its own word, the good ones do not wait, racks start in waves."""

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from headnode.workflows import nodes
from tests.integration.bmc_lab import ipmitool
from tests.integration.bmc_site import CANARY, BmcSite, address, bmc_site, daemon
from tests.integration.test_bad_bmcs import BadWire, wired

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ipmi_sim", "ipmitool")]


@contextmanager
def bad_wires(wires: dict[str, tuple[BadWire, str]]) -> Iterator[None]:
    """Proxies in a loop of their own: the commands under test have theirs."""
    loop = asyncio.new_event_loop()
    over = asyncio.Event()
    ready = threading.Event()

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for front, (wire, behind) in wires.items():
                await stack.enter_async_context(wired(wire, front, behind))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[BmcSite]:
    with bmc_site(tmp_path, 8) as made, made.context() as context:
        bad = {"gpu04": "127.44.1.4", "gpu05": "127.44.1.5", "gpu06": "127.44.1.6", "gpu08": "127.44.1.8"}
        for name, at in bad.items():
            nodes.set_fields(context, [name], {"bmc": at})
        ipmitool(address(7), "user", "set", "password", "2", "Changed.1", password=CANARY)
        wires = {
            bad["gpu04"]: (BadWire(drop=0.3), address(4)),
            bad["gpu05"]: (BadWire(delay=8), address(5)),
            bad["gpu06"]: (BadWire(one_session=True, holder=b"them"), address(6)),
        }
        with bad_wires(wires):
            yield made


def test_each_bad_bmc_has_its_own_word_and_the_others_do_not_wait(site: BmcSite) -> None:
    alone = [max(a["seconds"] for a in site.answers("power", "status", "gpu[01-03]").values()) for _ in range(3)]
    began = time.monotonic()
    answers = site.answers("power", "status", "gpu[01-08]")
    assert time.monotonic() - began < 8, "nothing takes longer than its deadline"
    words = {name: answer["status"] for name, answer in answers.items()}
    assert words.pop("gpu04") in ("off", "timeout")
    assert words == {
        "gpu01": "off", "gpu02": "off", "gpu03": "off", "gpu05": "unreachable", "gpu06": "no free session",
        "gpu07": "wrong credentials", "gpu08": "unreachable",
    }  # fmt: skip
    among = max(answers[name]["seconds"] for name in ("gpu01", "gpu02", "gpu03"))
    assert among < 3 * statistics.median(alone) + 0.3
    site.machines["gpu03"].stuck = True
    assert "gpu03: said yes, did nothing" in site.headnode("power", "on", "gpu[01-03]").out


def test_the_daemon_says_the_same_and_knows_slow_from_silent(site: BmcSite) -> None:
    with daemon(site.root):
        deadline = time.monotonic() + 60
        while True:
            words = {name: answer["status"] for name, answer in site.answers("power", "status", "gpu[01-08]").items()}
            if words["gpu05"] == "timeout":
                break
            assert time.monotonic() < deadline, words
        assert words["gpu06"] == "no free session"
        assert words["gpu07"] == "wrong credentials"
        assert words["gpu08"] == "unreachable"
        began = time.monotonic()
        assert site.headnode("power", "status", "gpu[01-03]").out == "gpu[01-03]: off\n"
        assert time.monotonic() - began < 2


def test_a_rack_is_switched_on_in_waves(tmp_path: Path) -> None:
    racks = "racks:\n  r1: {budget_watts: 6500}\n"
    with bmc_site(tmp_path, 3, more=racks, rack="r1") as site:
        file = site.paths.site_file
        file.write_text(file.read_text().replace("bmc:\n", "bmc:\n  surge_seconds: 6\n", 1))
        began = time.monotonic()
        assert site.headnode("power", "on", "gpu[01-03]").out == "gpu[01-03]: on\n"
        assert time.monotonic() - began > 6, "two fit into the budget, the third waits"
        began = time.monotonic()
        assert site.headnode("power", "on", "gpu[01-03]").code == 0
        assert time.monotonic() - began < 6, "those that run need no wave"
        site.headnode("power", "off", "gpu03", "--yes")
        file.write_text(file.read_text().replace("6500", "5300"))
        refused = site.headnode("power", "on", "gpu03")
        assert (refused.code, "gpu03 needs 3000 W to start, but rack r1 has 2900 W" in refused.err) == (2, True)
        file.write_text(file.read_text().replace("5300", "6500"))
        assert "6 s after the first" in site.headnode("power", "cycle", "gpu[01-03]", "--dry-run").err
