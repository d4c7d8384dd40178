"""A lab leaves nothing behind: not at its end, not after an exception, not after kill -9 and a sweep."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError, NotFound, ProgramFailed, ProgramMissing
from headnode.lab import net
from headnode.lab.lab import ROOT, Lab, lab, sweep, sweep_dead
from headnode.lab.machine import Firmware, Machine
from headnode.lab.process import wait_for
from headnode.lab.qemu import plugged_in
from headnode.lab.rogue import start_rogue
from headnode.lab.servers import start_nginx
from headnode.run import run
from pxe.probe import probe

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("ip", "dnsmasq", "nginx", "busybox", "qemu-system-x86_64"),
]

# A lab that is killed in the middle of its life: a server, one with children, and all kinds of links.
DOOMED = """
import sys, time
from headnode.lab.lab import lab
from tests.integration.test_cleanup import populate
with lab(sys.argv[1]) as running:
    populate(running)
    print("ready", flush=True)
    time.sleep(60)
"""


def populate(running: Lab) -> None:
    wire, node = running.switch(), running.host("node")
    wire.attach(node, "eth0", mac="52:54:00:aa:00:01", address="10.66.0.9/24")
    # Stopped before its first instruction, so that it costs nothing.
    machine = Machine("n1", ("52:54:00:aa:00:02",), Firmware.UEFI, memory_mib=128, extra=("-S",))
    running.enter(plugged_in(running, machine, [wire])).power_on()
    start_rogue(running, wire)
    start_nginx(running, node, "", port=8080)


def host_links() -> set[str]:
    return {line.split(": ")[1] for line in run(["ip", "-o", "link"]).stdout.splitlines()}


def inhabitants(name: str) -> list[int]:
    """Processes in any of the lab's namespaces, by the namespaces' identity, so that no name is needed."""
    wanted = {(net.NAMED / one).stat().st_ino for one in net.namespaces(name)}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").stat().st_ino in wanted:
                found.append(int(process.name))
        except OSError:
            continue
    return found


def alive(pids: list[int]) -> list[int]:
    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    return [pid for pid in pids if runs(pid)]


def assert_nothing_left(name: str, pids: list[int]) -> None:
    assert net.namespaces(name) == []
    assert not (ROOT / name).exists()
    assert alive(pids) == []


def test_the_end_of_a_lab_leaves_nothing(lab_name: str) -> None:
    before = host_links()
    with lab(lab_name) as running:
        populate(running)
        pids = inhabitants(lab_name)
        assert len(pids) >= 4, "QEMU, dnsmasq, nginx and its worker"
        assert host_links() == before, "the host's own links are never touched"
    assert_nothing_left(lab_name, pids)
    assert host_links() == before


def test_an_exception_leaves_nothing(lab_name: str) -> None:
    pids: list[int] = []

    def fail_half_way() -> None:
        with lab(lab_name) as running:
            populate(running)
            pids.extend(inhabitants(lab_name))
            running.host("node")  # there already is one

    with pytest.raises(ProgramFailed, match="File exists"):
        fail_half_way()
    assert pids
    assert_nothing_left(lab_name, pids)


def test_kill_9_is_swept_and_a_living_lab_is_not(lab_name: str) -> None:
    before = host_links()
    argv = [sys.executable, "-c", DOOMED, lab_name]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as doomed:
        try:
            assert doomed.stdout is not None
            assert any(line == "ready\n" for line in doomed.stdout)
            with pytest.raises(HeadnodeError, match="is running"):
                sweep(lab_name)
            with pytest.raises(HeadnodeError, match="is running"), lab(lab_name):
                pass
        finally:
            doomed.send_signal(signal.SIGKILL)
    pids = inhabitants(lab_name)
    assert len(alive(pids)) >= 4, "they outlive their lab, or this test shows nothing"
    sweep(lab_name)
    assert_nothing_left(lab_name, pids)
    assert host_links() == before
    sweep(lab_name)


def test_all_dead_labs_are_swept_and_no_living_one(lab_name: str) -> None:
    dead = f"{lab_name}d"
    run(["ip", "netns", "add", net.namespace_name(dead, "head")])
    with lab(lab_name) as living:
        living.host("head")
        swept = sweep_dead()
        assert dead in swept
        assert lab_name not in swept
        assert net.namespaces(lab_name) == [net.namespace_name(lab_name, "head")]
    assert_nothing_left(dead, [])


def test_a_new_lab_of_the_same_name_removes_the_leftovers_first(lab_name: str) -> None:
    run(["ip", "netns", "add", net.namespace_name(lab_name, "head")])
    with lab(lab_name) as running:
        running.host("head")
    assert_nothing_left(lab_name, [])


def test_a_sweep_spares_a_stranger_in_the_namespace_and_other_labs(lab_name: str) -> None:
    """Somebody debugging with `ip netns exec … bash` keeps their shell."""
    other = f"{lab_name}x"
    name = net.namespace_name(lab_name, "head")
    with lab(other) as neighbour:
        neighbour.host("head")
        run(["ip", "netns", "add", name])
        with subprocess.Popen(["ip", "netns", "exec", name, "sleep", "60"]) as stranger:
            assert wait_for(lambda: stranger.pid in inhabitants(lab_name), 5)
            sweep(lab_name)
            assert stranger.poll() is None
            stranger.terminate()
        assert net.namespaces(other) == [net.namespace_name(other, "head")]
    assert_nothing_left(lab_name, [])


def test_two_labs_side_by_side_do_not_hear_each_other(lab_name: str) -> None:
    with lab(f"{lab_name}a") as one, lab(f"{lab_name}b") as two:
        start_rogue(one, one.switch())
        head = two.host("head")
        two.switch().attach(head, "eth0")
        with head.inside():
            assert probe("eth0", 2) == []


def test_a_program_that_ends_early_is_reported_with_its_words(running_lab: Lab) -> None:
    host = running_lab.host("head")
    process = running_lab.start(host, "broken", ["dnsmasq", "--keep-in-foreground", "--conf-file=/nonexistent"])
    with pytest.raises(HeadnodeError, match=r"broken ended before .* cannot read /nonexistent"):
        process.wait_listening("udp", 67)
    with pytest.raises(ProgramMissing, match="'no-such-program'"):
        running_lab.start(host, "absent", ["no-such-program"])


def test_a_program_that_ignores_term_is_killed(running_lab: Lab) -> None:
    host = running_lab.host("head")
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    process = running_lab.start(host, "deaf", [sys.executable, "-c", deaf])
    process.wait_until(lambda: process.last_words() == "up", 10, "start")
    process.stop(grace=0.3)
    assert not process.alive
    assert alive([process.pid]) == []
    process.stop()


def test_a_thread_inside_a_namespace_comes_back_out(running_lab: Lab) -> None:
    host, current = running_lab.host("head"), Path("/proc/thread-self/ns/net")
    before = current.readlink()

    def fail_inside() -> None:
        with host.inside():
            assert current.readlink() != before
            raise RuntimeError("boo")

    with pytest.raises(RuntimeError, match="boo"):
        fail_inside()
    assert current.readlink() == before
    with pytest.raises(NotFound, match="hnl-absent"), net.Namespace("hnl-absent").inside():
        pass


def test_macs_cables_and_addresses(running_lab: Lab) -> None:
    wire, one, two = running_lab.switch(), running_lab.host("one"), running_lab.host("two")
    port = wire.attach(one, "eth0", mac="52:54:00:aa:00:01", address="10.1.0.1/24")
    wire.attach(two, "eth0", address="10.1.0.2/24")
    assert one.mac("eth0") == "52:54:00:aa:00:01"
    ping = ["busybox", "ping", "-c1", "-W1", "10.1.0.2"]
    assert one.run(ping).returncode == 0
    wire.pull_cable(port)
    assert one.run(ping, check=False).returncode != 0
    wire.plug_cable(port)
    assert wait_for(lambda: one.run(ping, check=False).returncode == 0, 10)
