"""The live view: step, percent, speed and what is left, and waiting for somebody to press the button."""

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headnode.cli.watch import Meter, clock, over, problem, row
from headnode.lab.process import wait_for
from headnode.model import Deployment, Intent, Node, State
from headnode.workflows import deploy, enroll
from headnode.workflows.context import Context
from tests.support import mac, process
from tests.support import row as row_without_bmc

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
NODE = Node("gpu01", "gpu", state=State.DEPLOYING)
WORK = Deployment("gpu01", Intent.DEPLOY, BEGAN, BEGAN + timedelta(hours=1), step="unpack image gpu@3", percent=25,
                  received=250_000_000, total=1_000_000_000)  # fmt: skip


def metered(*moments: tuple[float, int | None]) -> Meter:
    meter = Meter()
    for now, received in moments:
        meter.add(now, received)
    return meter


def test_a_row_has_step_percent_speed_and_what_is_left() -> None:
    meter = metered((0, 50_000_000), (2, 250_000_000))
    found = row(NODE, WORK, meter, BEGAN.timestamp() + 75)
    assert found == ("gpu01", "deploying", "unpack image gpu@3", "25", "100.0 MB/s", "0:08", "1:15")


def test_before_the_agent_speaks_and_after_it_failed() -> None:
    silent = replace(WORK, step=None, percent=None, received=None, total=None)
    waiting = row(NODE, silent, Meter(), BEGAN.timestamp())
    assert waiting == ("gpu01", "deploying", "waiting for the node", "", "", "", "0:00")
    over = replace(silent, finished=BEGAN + timedelta(minutes=2), result="failed")
    failed = row(replace(NODE, state=State.FAILED, reason="no disk fits"), over, Meter(), BEGAN.timestamp() + 9999)
    assert failed == ("gpu01", "failed", "no disk fits", "", "", "", "2:00")


def test_speed_is_that_of_the_last_seconds_and_begins_anew_with_a_step() -> None:
    meter = metered(*((second, second * 1_000_000) for second in range(60)))
    assert meter.speed() == 1_000_000
    for second in range(60, 80):
        meter.add(second, 59_000_000)
    assert meter.speed() == 0, "an image that has stopped coming is not hidden by a mean"
    assert meter.left(100_000_000) is None
    meter.add(81, 5)
    assert meter.speed() is None, "a power cut begins it anew"
    meter.add(82, None)
    assert not meter.seen


def test_time_as_people_read_it() -> None:
    assert [clock(seconds) for seconds in (-1, 0, 59.6, 3599)] == ["0:00", "0:00", "1:00", "59:59"]


def test_a_rescue_is_over_when_its_own_record_says_so() -> None:
    up = replace(NODE, state=State.UP)
    rescue = replace(WORK, intent=Intent.RESCUE, step=None)
    now = BEGAN.timestamp() + 60
    assert not over(up, rescue, now)
    assert over(up, rescue, rescue.deadline.timestamp()), "nobody waits for ever"
    assert problem(up, rescue) == "nothing was heard of it in time"
    ready = replace(rescue, finished=BEGAN, result="done")
    assert over(up, ready, now)
    broken = replace(NODE, state=State.FAILED, phase="verifying", reason="4 of 8 GPUs")
    assert problem(broken, ready) == "", "what was wrong with the node before says nothing of its rescue"
    assert "4 of 8 GPUs" not in row(broken, rescue, Meter(), now)
    assert problem(broken, replace(ready, intent=Intent.DEPLOY)) == "verifying: 4 of 8 GPUs"


def test_a_rescue_without_a_bmc_waits_too_and_leaves_the_node_as_it_was(context: Context, root: Path) -> None:
    assert enroll.enroll(context, [row_without_bmc(name="gpu01", mac=mac(1), profile="gpu")]).problems == []
    ramdisk = context.paths.state / "ramdisk/x86_64"
    ramdisk.mkdir(parents=True)
    (ramdisk / "initrd").touch()
    before = replace(context.inventory.nodes(["gpu01"])[0], revision=0)
    for end, code, words in (
        (lambda: deploy.done(context, *running(context)), 0, "Power-cycle gpu01 now"),
        (lambda: deploy.abort(context, ["gpu01"]), 1, "gpu01 failed: aborted by tester"),
    ):
        with ThreadPoolExecutor(1) as pool:
            person = pool.submit(process, root, "rescue", "gpu01", "--yes")
            assert wait_for(lambda: bool(works(context)) and works(context)[0].finished is None, 100)
            assert not wait_for(person.done, 2), "it waits"
            end()
            result = person.result(100)
        assert (result.returncode, words in result.stderr.decode()) == (code, True)
        assert replace(running(context)[1], revision=0) == before


def works(context: Context) -> list[Deployment]:
    return context.inventory.deployments(context.inventory.nodes(["gpu01"]), limit_each=1)


def running(context: Context) -> tuple[Deployment, Node]:
    return works(context)[0], context.inventory.nodes(["gpu01"])[0]


def test_without_a_bmc_it_says_so_and_waits(context: Context, root: Path) -> None:
    assert enroll.enroll(context, [row_without_bmc(name="gpu01", mac=mac(1), profile="gpu")]).problems == []
    name = "gpu01"
    refused = process(root, "inspect", name, "--yes")
    assert (refused.returncode, state(context, name)) == (2, State.ENROLLED)
    assert b"there is no ramdisk for x86_64" in refused.stderr
    ramdisk = context.paths.state / "ramdisk/x86_64"
    ramdisk.mkdir(parents=True)
    (ramdisk / "initrd").touch()
    ended: list[subprocess.CompletedProcess[bytes]] = []
    person = threading.Thread(target=lambda: ended.append(process(root, "inspect", name, "--yes")))
    person.start()
    assert wait_for(lambda: state(context, name) is State.INSPECTING, 100)
    assert not wait_for(lambda: not person.is_alive(), 2), "it waits"
    deploy.abort(context, [name])
    person.join(100)
    (result,) = ended
    said = result.stderr.decode()
    assert f"Power-cycle {name} now" in said
    assert f"{name}: inspecting: waiting for the node" in said
    assert f"{name} failed: inspecting: aborted by tester" in said
    assert result.returncode == 1


def state(context: Context, name: str) -> State:
    node = context.inventory.node(name)
    assert node is not None
    return node.state
