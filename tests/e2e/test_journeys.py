"""What an admin does with a node in its life, on emulated machines with real firmware, BMCs, disks and services."""

import base64
import json
import time

import pytest

from headnode import bmclink
from headnode.lab.client import Client, offers
from headnode.lab.process import wait_for
from headnode.model import Intent
from tests.e2e.cluster import INSTALLED, SPARE, Cluster, cluster_marks

pytestmark = cluster_marks


@pytest.mark.parametrize("name", INSTALLED)
def test_from_enrolled_to_up(cluster: Cluster, name: str) -> None:
    cluster.installed(name)
    assert cluster.ssh(name, "hostname").strip() == name
    spec = next(node for node in cluster.world.spec.nodes if node.name == name)
    has_efi = cluster.try_ssh(name, "test", "-d", "/sys/firmware/efi").returncode == 0
    assert has_efi == (spec.firmware == "uefi")
    # Its hardware was looked at on the way, and at its next boot it starts from its disk.
    kinds = [event.kind for event in cluster.events(name)]
    assert kinds.count("deployed") == 1
    assert "agent.inventory" in kinds
    assert cluster.node(name).intent is Intent.DISK
    # Nobody on another wire ever heard of any of this.
    assert cluster.world.silent
    print({name: {state: round(seconds) for state, seconds in times.items()} for name, times in cluster.times.items()})  # noqa: T201


def test_power_and_console_through_the_command_line(cluster: Cluster) -> None:
    cluster.installed("gpu02")
    assert cluster.headnode("power", "status", "gpu[01-02]") == "gpu[01-02]: on\n"
    # Recorded since before anybody looked.
    assert "gpu02 login:" in cluster.headnode("console", "gpu02", "--grep", "login:")
    assert "starts the ramdisk to deploy" in cluster.headnode("console", "gpu02", "--grep", "Headnode: gpu02")
    before = cluster.headnode("console", "gpu02", "--grep", "Password:").count("\n")
    with bmclink.connected(cluster.world.places.head) as connection:
        assert connection is not None
        bmclink.say(connection, {"verb": "console", "node": "gpu02", "who": "ann", "write": True})
        time.sleep(0.5)
        bmclink.say(connection, {"type": base64.b64encode(b"\rnobody-here\r").decode()})
        assert wait_for(lambda: cluster.headnode("console", "gpu02", "--grep", "Password:").count("\n") > before, 60), (
            "what was typed did not arrive"
        )
    assert [row["name"] for row in json.loads(cluster.headnode("sensors", "gpu02", "-o", "json"))]


def test_unknown_hardware_is_seen_enrolled_switched_and_retired(cluster: Cluster) -> None:
    spare = cluster.world.node(SPARE)
    mac = spare.machine.machine.macs[0]
    machine = spare.machine
    # Somebody presses the button of a machine that nobody has heard of: it gets no answer, and is seen.
    machine.power_on()
    assert wait_for(lambda: mac in cluster.headnode("seen", "-o", "name"), 120)
    assert cluster.context.inventory.node(SPARE) is None
    # While the window is open it is lent an address, and looked at.
    cluster.headnode("discover", "--for", "10m", "--yes")
    machine.reset()
    machine.wait_for(f"{mac} is unknown to {cluster.world.spec.name} and is looked at", 120)
    cluster.headnode("discover", "--close")
    bmc = next(node.bmc for node in cluster.world.spec.nodes if node.name == SPARE)
    cluster.headnode("enroll", SPARE, "--seen", "--mac", mac, "--bmc", bmc, "--profile", "gpu", "--yes")
    # From now on it is worked from the desk.
    assert cluster.headnode("power", "status", SPARE) == f"{SPARE}: on\n"
    cluster.headnode("power", "cycle", SPARE, "--yes")
    looked_for = f"Headnode: {SPARE} starts from its own disk"
    assert wait_for(lambda: looked_for in cluster.headnode("console", SPARE, "--grep", "Headnode:"), 120)
    assert cluster.headnode("power", "off", SPARE, "--yes") == f"{SPARE}: off\n"
    assert not machine.is_on()
    # And it leaves: no name, no address, no answer.
    cluster.headnode("retire", SPARE, "--yes")
    assert SPARE not in cluster.headnode("nodes", "-o", "name")
    probe = cluster.world.lab.host("probe")
    cluster.world.provision.attach(probe, "eth0")
    with probe.inside():
        assert offers("eth0", Client(mac), 3) == []


def test_reinstalling_keeps_host_keys_and_the_volumes_to_keep(cluster: Cluster) -> None:
    cluster.installed("gpu01")
    cluster.ssh("gpu01", "echo precious > /data/kept; echo gone > /root/gone; sync")
    cluster.deploy("gpu01")
    cluster.installed("gpu01")
    # ssh has the first installation's keys in its known_hosts, and refuses any others.
    assert cluster.ssh("gpu01", "cat", "/data/kept") == "precious\n"
    assert cluster.try_ssh("gpu01", "test", "-e", "/root/gone").returncode == 1
    assert len(cluster.events("gpu01", "deployed")) == 2
