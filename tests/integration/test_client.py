"""Synthetic nodes against a real dnsmasq and nginx."""

import json
import sys
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.lab.client import Client, acquire, offers, replies
from headnode.lab.fetch import FetchFailed, http_fetch, tftp_fetch
from headnode.lab.lab import Lab
from headnode.lab.load import synthetic_mac
from headnode.lab.net import Namespace
from headnode.lab.servers import start_dnsmasq, start_nginx
from pxe.dhcp import Architecture

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ip", "dnsmasq", "nginx")]
HEAD = "10.20.0.1"
MAC, ADDRESS = "52:54:00:aa:00:01", "10.20.1.1"
STATIC_ONLY = ["interface=eth0", "dhcp-range=10.20.0.0,static,255.255.0.0,1h", "dhcp-ignore=tag:!known"]
OWN_SCRIPT = "root {}; location = /boot {{ default_type text/plain; try_files /$remote_addr.ipxe =404; }}"


def head_and_nodes(lab: Lab) -> tuple[Namespace, Namespace]:
    wire, head, nodes = lab.switch(), lab.host("head"), lab.host("nodes")
    wire.attach(head, "eth0", address=f"{HEAD}/16")
    wire.attach(nodes, "eth0")
    return head, nodes


def test_a_known_client_gets_its_address_and_an_unknown_one_nothing(running_lab: Lab) -> None:
    head, nodes = head_and_nodes(running_lab)
    boot = "dhcp-boot=ipxe.efi"
    start_dnsmasq(running_lab, head, "dnsmasq", [*STATIC_ONLY, f"dhcp-host={MAC},{ADDRESS}", boot])
    with nodes.inside():
        lease = acquire("eth0", Client(MAC, Architecture.UEFI_X64))
        assert (lease.address, lease.server_id, lease.boot_file) == (ADDRESS, HEAD, "ipxe.efi")
        assert {offer.your_address for offer in offers("eth0", Client(MAC), 1)} == {ADDRESS}
        assert offers("eth0", Client("52:54:00:aa:00:99"), 3) == []
        with pytest.raises(HeadnodeError, match="got no address"):
            acquire("eth0", Client("52:54:00:aa:00:99"), timeout=1)


@pytest.mark.parametrize("architecture", list(Architecture))
def test_the_server_sees_each_architecture(running_lab: Lab, architecture: Architecture) -> None:
    head, nodes = head_and_nodes(running_lab)
    match = f"dhcp-match=set:it,option:client-arch,{int(architecture)}"
    lines = [match, "dhcp-boot=tag:it,right", "dhcp-boot=tag:!it,wrong"]
    start_dnsmasq(running_lab, head, "dnsmasq", [*STATIC_ONLY, f"dhcp-host={MAC},{ADDRESS}", *lines])
    with nodes.inside():
        assert acquire("eth0", Client(MAC, architecture)).boot_file == "right"


def test_another_interface_of_the_head_hears_nothing_at_all(running_lab: Lab) -> None:
    head, _ = head_and_nodes(running_lab)
    office, guest = running_lab.switch("office"), running_lab.host("guest")
    office.attach(head, "eth1", address="192.168.7.1/24")
    office.attach(guest, "eth0")
    everyone = ["interface=eth0", "dhcp-range=10.20.0.2,10.20.9.9,255.255.0.0,1h"]
    start_dnsmasq(running_lab, head, "dnsmasq", everyone)
    with guest.inside():
        assert replies("eth0", Client(MAC, Architecture.BIOS), 3) == []


def test_ipxe_is_seen_as_ipxe(running_lab: Lab) -> None:
    head, nodes = head_and_nodes(running_lab)
    lines = [
        "dhcp-userclass=set:ipxe,iPXE",
        "dhcp-boot=tag:ipxe,http://head/boot",
        "dhcp-boot=tag:!ipxe,ipxe.efi",
    ]
    start_dnsmasq(running_lab, head, "dnsmasq", [*STATIC_ONLY, f"dhcp-host={MAC},{ADDRESS}", *lines])
    with nodes.inside():
        assert acquire("eth0", Client(MAC, Architecture.UEFI_X64)).boot_file == "ipxe.efi"
        assert acquire("eth0", Client(MAC, Architecture.UEFI_X64, ipxe=True)).boot_file == "http://head/boot"


@pytest.mark.parametrize("size", [0, 1, 511, 512, 1428, 1429, 500_000])
def test_tftp_files_arrive_whole(running_lab: Lab, tmp_path: Path, size: int) -> None:
    head, nodes = head_and_nodes(running_lab)
    tmp_path.chmod(0o755)
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "file").write_bytes(content)
    lines = ["enable-tftp", f"tftp-root={tmp_path}"]
    start_dnsmasq(running_lab, head, "dnsmasq", [*STATIC_ONLY, *lines])
    nodes.add_address("eth0", f"{ADDRESS}/16")
    with nodes.inside():
        assert tftp_fetch(HEAD, "file", source=ADDRESS) == content
        assert tftp_fetch(HEAD, "file", block=512) == content
        with pytest.raises(FetchFailed, match="not found"):
            tftp_fetch(HEAD, "absent")


def test_http_comes_from_the_address_it_should(running_lab: Lab, tmp_path: Path) -> None:
    head, nodes = head_and_nodes(running_lab)
    (tmp_path / f"{ADDRESS}.ipxe").write_text("#!ipxe mine\n")
    start_nginx(running_lab, head, OWN_SCRIPT.format(tmp_path))
    nodes.add_address("eth0", f"{ADDRESS}/16")
    nodes.add_address("eth0", "10.20.1.2/16")
    with nodes.inside():
        assert http_fetch(HEAD, "/boot", source=ADDRESS).body == b"#!ipxe mine\n"
        assert http_fetch(HEAD, "/boot", source="10.20.1.2").status == 404
        assert http_fetch(HEAD, "/boot/../../etc/passwd").status in (400, 404)
        with pytest.raises(FetchFailed, match=r"10\.20\.0\.1:81"):
            http_fetch(HEAD, "/boot", port=81, timeout=2)


def test_a_thousand_nodes_at_once_and_none_lost(running_lab: Lab, tmp_path: Path) -> None:
    head, nodes = head_and_nodes(running_lab)
    count = 1000
    hosts = running_lab.directory / "hosts"
    addresses = [f"10.20.{1 + number // 250}.{1 + number % 250}" for number in range(count)]
    hosts.write_text("".join(f"{synthetic_mac(n)},{address}\n" for n, address in enumerate(addresses)))
    for address in addresses:
        (tmp_path / f"{address}.ipxe").write_text(f"#!ipxe\necho {address}\n")
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    lines = [f"dhcp-hostsfile={hosts}", "dhcp-lease-max=2000", "leasefile-ro"]
    start_dnsmasq(running_lab, head, "dnsmasq", [*STATIC_ONLY, *lines])
    start_nginx(running_lab, head, OWN_SCRIPT.format(tmp_path))
    argv = [sys.executable, "-m", "headnode.lab.load", "--server", HEAD, "--count", str(count)]
    done = nodes.run(argv, check=False, timeout=200)
    report = json.loads(done.stdout)
    assert report["lost"] == 0, report
    assert report["bytes"] == count << 20
