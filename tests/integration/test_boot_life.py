"""Starting, stopping, being killed, running out of disk: the head node's services through their own bad days."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.lab.client import Client, acquire, offers, replies
from headnode.lab.fetch import http_fetch
from headnode.lab.lab import Lab, lab
from headnode.lab.process import inhabitants, wait_for
from headnode.lab.rogue import start_rogue
from headnode.run import run
from tests.integration.boot import HEAD, Head, eventually, head_node, mac, own_address

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("ip", "dnsmasq", "nginx", "setpriv", "mount", "grub-mkstandalone"),
]
NODE = mac(1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(f"l{os.getpid():x}", logs=tmp_path_factory.mktemp("logs")) as made:
        yield made


@pytest.fixture(scope="module")
def head(running: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """Its state is on a small disk of its own, so that the disk can be filled."""
    root = tmp_path_factory.mktemp("head")
    state = root / "var/lib/headnode"
    state.mkdir(parents=True)
    run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", state])
    running.at_end(lambda: run(["umount", "--lazy", state]))
    with head_node(running, root) as made:
        made.enroll("gpu01", mac=NODE)
        yield made


@pytest.fixture
def up(head: Head) -> Head:
    """Started by whichever test comes first, and again by whoever finds it stopped."""
    if head.process is None or not head.process.alive:
        head.up()
    return head


def address_of(head: Head, who: str) -> str:
    with head.nodes.inside():
        return acquire("eth0", Client(who)).address


def script_of(head: Head, address: str) -> str:
    own_address(head, address)
    with head.nodes.inside():
        return http_fetch(HEAD, "/boot", source=address).body.decode()


def test_beside_another_dhcp_server_it_refuses_to_start(head: Head, running: Lab) -> None:
    rogue = start_rogue(running, head.wire)
    began = time.monotonic()
    process = head.up(wait=False)
    assert wait_for(lambda: not process.alive, 30)
    print(f"refused after {time.monotonic() - began:.1f} s")  # noqa: T201
    for word in ("another DHCP server answers on eth0", rogue.address, rogue.mac, "rogue.0", "hint:"):
        assert word in head.log()
    with head.nodes.inside():
        assert {offer.server_id for offer in offers("eth0", Client(NODE), 2)} == {rogue.address}
    assert len(inhabitants(head.host.name)) == 0, "nothing was left running"
    checked = head.headnode("check", check=False)
    assert checked.returncode == 1
    assert rogue.address in checked.stdout
    rogue.stop()
    running_rogue = rogue.process
    assert not running_rogue.alive


def test_without_its_interface_or_address_it_refuses_to_start(head: Head) -> None:
    head.host.ip("link set eth0 down")
    process = head.up(wait=False)
    assert wait_for(lambda: not process.alive, 30)
    assert "the interface eth0 is down" in head.log()
    assert "ip link set eth0 up" in head.log()
    head.host.ip("link set eth0 up")


def test_a_second_one_is_refused_and_disturbs_nothing(up: Head) -> None:
    before = (up.pid("dnsmasq"), up.pid("nginx"), up.pid("reconcile"))
    second = up.headnode("up", check=False)
    assert second.returncode == 1
    assert "is running already" in second.stderr
    assert (up.pid("dnsmasq"), up.pid("nginx"), up.pid("reconcile")) == before
    assert address_of(up, NODE) == up.address("gpu01")


@pytest.mark.parametrize("service", ["dnsmasq", "nginx", "reconcile"])
def test_what_is_killed_comes_back_and_nodes_keep_their_addresses(up: Head, service: str) -> None:
    address = address_of(up, NODE)
    seconds = up.kill(service)
    began = time.monotonic()
    eventually(lambda: address_of(up, NODE) == address)
    assert "node gpu01," in script_of(up, address)
    print(f"{service} was back after {seconds:.2f} s, serving {time.monotonic() - began:.2f} s later")  # noqa: T201


def test_enrolling_while_dnsmasq_is_down_is_not_lost(up: Head) -> None:
    """The reload finds nobody to tell for a moment."""
    up.signal("dnsmasq")
    address = up.enroll("gpu02", mac=mac(2))
    eventually(lambda: address_of(up, mac(2)) == address)


def test_no_line_is_lost_or_told_twice(up: Head) -> None:
    """Through a rotation of the log as logrotate does it, and through kill -9 of whoever reads it."""
    address = up.address("gpu01")
    own_address(up, address)
    log = up.paths.logs / "nginx-access.log"
    for number in range(120):
        if number in (30, 90):
            eventually(lambda: up.pid("reconcile"))
            up.signal("reconcile")
        if number == 60:
            log.rename(log.with_name(log.name + ".1"))
            up.signal("nginx", signal.SIGUSR1)
        with up.nodes.inside():
            http_fetch(HEAD, f"/line-{number}", source=address)
        time.sleep(0.02)
    wanted = [f"GET /line-{number}: 404" for number in range(120)]

    def told() -> list[str]:
        return sorted(event.message for event in up.events("gpu01", "http") if "/line-" in event.message)

    eventually(lambda: len(told()) >= 120, 30)
    time.sleep(1)
    assert told() == sorted(wanted)


def test_a_full_disk_leaves_what_was_live(up: Head) -> None:
    before, address = up.paths.published, up.address("gpu01")
    listed = sorted(path for path in before.rglob("*") if path.is_file())
    up.headnode("enroll", "late", "--mac", mac(9), "--profile", "gpu", "--yes", "--no-publish")
    filler = up.paths.state / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"\0" * 65536)
        except OSError:
            pass
    failed = up.headnode("publish", check=False)
    assert failed.returncode == 1
    # Whoever needs the space first says so: the database or the new files.
    assert "disk is full" in failed.stderr or "No space left on device" in failed.stderr
    assert "what was live before still is" in failed.stderr
    assert "free some space" in failed.stderr
    assert sorted(path for path in before.rglob("*") if path.is_file()) == listed
    assert address_of(up, NODE) == address
    assert "node gpu01," in script_of(up, address)
    up.kill("dnsmasq")
    eventually(lambda: address_of(up, NODE) == address)
    checked = up.headnode("check", check=False)
    assert "nothing can be published" in checked.stderr
    filler.unlink()
    up.headnode("publish")
    eventually(lambda: address_of(up, mac(9)) == up.address("late"))


def test_a_window_closes_although_everything_was_killed(up: Head) -> None:
    stray = "52:54:00:99:00:30"
    up.headnode("discover", "--for", "8s", "--yes")
    with up.nodes.inside():
        eventually(lambda: offers("eth0", Client(stray), 1))
    assert up.process is not None
    children = [pid for pid in inhabitants(up.host.name) if pid != up.process.pid]
    assert len(children) >= 5
    os.kill(up.process.pid, signal.SIGKILL)
    assert wait_for(lambda: not inhabitants(up.host.name), 15), "services end with their supervisor"
    up.process.kill()
    time.sleep(8)
    up.up()
    with up.nodes.inside():
        assert replies("eth0", Client(stray), 3) == []
        assert acquire("eth0", Client(NODE)).address == up.address("gpu01")
    eventually(lambda: any("closed" in event.message for event in up.events(None, "discovery")))


def test_a_changed_site_is_noticed(up: Head) -> None:
    before = up.pid("reconcile")
    text = up.paths.site_file.read_text()
    up.paths.site_file.write_text(text.replace("demo.lan", "other.lan"))
    up.headnode("publish")
    eventually(lambda: up.pid("reconcile") not in (0, before))
    eventually(lambda: "other.lan" in (up.paths.published / "dnsmasq/provision.conf").read_text())
    assert address_of(up, NODE) == up.address("gpu01")
    up.paths.site_file.write_text(text)
    up.headnode("publish")


def test_term_stops_everything_and_leaves_nothing(up: Head) -> None:
    assert up.process is not None
    os.kill(up.process.pid, signal.SIGTERM)
    assert wait_for(lambda: up.process is not None and not up.process.alive, 30)
    assert inhabitants(up.host.name) == []
    assert not Path(up.paths.control_socket).exists()
    with up.nodes.inside():
        assert replies("eth0", Client(NODE), 2) == []
