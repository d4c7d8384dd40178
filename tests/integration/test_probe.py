"""The foreign-DHCP preflight against real servers, on wires of its own."""

import socket
import threading
import time
from random import Random

import pytest

from headnode.errors import HeadnodeError, NotFound
from headnode.lab.lab import Lab
from headnode.lab.rogue import start_rogue
from headnode.lab.servers import start_dnsmasq
from pxe import frames
from pxe.probe import probe

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ip", "dnsmasq")]


def test_a_foreign_server_is_found_with_address_mac_and_boot_file(running_lab: Lab) -> None:
    wire, head = running_lab.switch(), running_lab.host("head")
    # No address on the head's side: the preflight comes before everything.
    wire.attach(head, "eth0")
    rogue = start_rogue(running_lab, wire, boot_file="evil/rogue.0")
    with head.inside():
        found = probe("eth0", 3)
    assert {(offer.server_id, offer.source_ip, offer.source_mac) for offer in found} == {
        (rogue.address, rogue.address, rogue.mac)
    }
    assert {offer.boot_file for offer in found} == {"evil/rogue.0"}
    assert {offer.next_server for offer in found} == {rogue.address}
    assert all(offer.address.startswith("10.66.0.") for offer in found)


def test_two_foreign_servers_are_both_named(running_lab: Lab) -> None:
    wire, head = running_lab.switch(), running_lab.host("head")
    wire.attach(head, "eth0", address="10.20.0.1/16")
    start_rogue(running_lab, wire)
    start_rogue(running_lab, wire, role="rogue2", address="10.77.0.1/24", mac="52:54:00:77:00:01", boot_file="")
    with head.inside():
        found = probe("eth0", 3)
    assert {offer.server_id for offer in found} == {"10.66.0.1", "10.77.0.1"}


def test_our_own_answers_are_not_foreign_but_a_clone_of_us_is(running_lab: Lab) -> None:
    wire, head = running_lab.switch(), running_lab.host("head")
    wire.attach(head, "eth0")
    rogue = start_rogue(running_lab, wire)
    with head.inside():
        assert probe("eth0", 2, ours=[rogue.address]) == []
        assert probe("eth0", 2, ours=[rogue.address, rogue.mac]) == []
        assert probe("eth0", 2, ours=[rogue.address, "52:54:00:99:99:99"]) != []


def test_our_own_running_server_is_not_seen_and_does_not_hide_a_foreign_one(running_lab: Lab) -> None:
    """Raw frames leave by the wire and never enter the own host: the check can be repeated while we serve."""
    wire, head = running_lab.switch(), running_lab.host("head")
    wire.attach(head, "eth0", address="10.20.0.1/16")
    ours = ["interface=eth0", "dhcp-range=10.20.200.1,10.20.200.99,255.255.0.0,5m"]
    start_dnsmasq(running_lab, head, "ours", ours)
    with head.inside():
        assert probe("eth0", 2) == []
        start_rogue(running_lab, wire)
        assert {offer.server_id for offer in probe("eth0", 2)} == {"10.66.0.1"}


def test_a_server_that_answers_only_pxe_firmware_is_found(running_lab: Lab) -> None:
    wire, head, other = running_lab.switch(), running_lab.host("head"), running_lab.host("proxy")
    wire.attach(head, "eth0")
    wire.attach(other, "eth0", address="10.66.0.1/24")
    service = "pxe-service=X86-64_EFI,boot,proxy.efi"
    start_dnsmasq(running_lab, other, "proxy", ["interface=eth0", "dhcp-range=10.66.0.0,proxy", service])
    with head.inside():
        found = probe("eth0", 3)
    assert {offer.server_id for offer in found} == {"10.66.0.1"}


def test_garbage_on_the_wire_does_not_disturb_it(running_lab: Lab) -> None:
    wire, head, noisy = running_lab.switch(), running_lab.host("head"), running_lab.host("noisy")
    wire.attach(head, "eth0")
    wire.attach(noisy, "eth0")
    start_rogue(running_lab, wire)
    with noisy.inside():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind(("eth0", 0))
    done = threading.Event()
    thread = threading.Thread(target=babble, args=(raw, done))
    thread.start()
    try:
        with head.inside():
            found = probe("eth0", 3)
    finally:
        done.set()
        thread.join()
        raw.close()
    assert {offer.server_id for offer in found} == {"10.66.0.1"}


def babble(raw: socket.socket, done: threading.Event) -> None:
    """Frames to the DHCP client's port that are broken in every layer above it."""
    random = Random(7)
    for _ in range(20_000):
        if done.wait(0.0005):
            return
        payload = random.randbytes(random.randrange(600))
        frame = bytearray(frames.encode(frames.Datagram(payload, "02:00:00:00:00:07", 67, 68)))
        if random.random() < 0.5:
            frame[random.randrange(14, len(frame))] = random.randrange(256)
        raw.send(frame)


def test_a_silent_wire_has_no_offers_and_takes_as_long_as_told(running_lab: Lab) -> None:
    wire, head = running_lab.switch(), running_lab.host("head")
    wire.attach(head, "eth0")
    began = time.monotonic()
    with head.inside():
        assert probe("eth0", 2) == []
    assert 1.9 < time.monotonic() - began < 3


def test_an_absent_or_downed_interface_is_said(running_lab: Lab) -> None:
    wire, head = running_lab.switch(), running_lab.host("head")
    wire.attach(head, "eth0")
    head.ip("link set eth0 down")
    with head.inside():
        with pytest.raises(NotFound, match="'eth7'"):
            probe("eth7", 1)
        with pytest.raises(HeadnodeError, match="'eth0'"):
            probe("eth0", 1)
