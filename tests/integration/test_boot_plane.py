"""What nodes and strangers get from a running head node: real programs on both ends of a wire."""

import json
import os
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from headnode.lab.client import Client, Lease, acquire, replies
from headnode.lab.fetch import FetchFailed, Response, http_fetch, tftp_fetch
from headnode.lab.lab import Lab, lab
from headnode.lab.load import synthetic_mac
from headnode.lab.rogue import start_rogue
from headnode.model import Severity
from pxe.dhcp import Architecture, MessageType, Op, Option, Packet
from pxe.wire import Wire
from tests.integration.boot import HEAD, Head, dns, eventually, head_node, mac, own_address, words

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("ip", "dnsmasq", "nginx", "setpriv", "udhcpc", "grub-mkstandalone"),
]
NODE, OTHER, STRANGER = mac(1), mac(2), "52:54:00:99:00:01"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(f"b{os.getpid():x}", logs=tmp_path_factory.mktemp("logs")) as made:
        yield made


@pytest.fixture(scope="module")
def head(running: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    with head_node(running, tmp_path_factory.mktemp("head")) as made:
        made.enroll("gpu01", mac=NODE, bmc="10.21.0.11", bmc_mac=mac(0x1001))
        made.enroll("gpu02", mac=OTHER)
        images = made.paths.state / "images"
        images.mkdir()
        (images / "one-mib").write_bytes(secrets.token_bytes(1 << 20))
        process = made.up()
        yield made
        print(process.log.read_text()[-6000:])  # noqa: T201


@pytest.fixture(scope="module", autouse=True)
def stranger(head: Head, running: Lab) -> "Iterator[Future[list[Packet]]]":
    """An unknown machine that asks for 30 seconds, while all the other tests go on beside it."""
    host = running.host("stranger")
    head.wire.attach(host, "eth0")

    def ask() -> list[Packet]:
        with host.inside():
            return replies("eth0", Client(STRANGER, Architecture.UEFI_X64), 30)

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(ask)


def lease_of(head: Head, who: str, architecture: Architecture | None = None, *, ipxe: bool = False) -> Lease:
    with head.nodes.inside():
        return acquire("eth0", Client(who, architecture, ipxe=ipxe))


def get(head: Head, source: str, path: str, headers: dict[str, str] | None = None) -> Response:
    own_address(head, source)
    with head.nodes.inside():
        return http_fetch(HEAD, path, source=source, headers=headers)


def raw_http(head: Head, source: str, request: bytes) -> bytes:
    """Whatever bytes, as no library would send them."""
    own_address(head, source)
    with head.nodes.inside(), socket.create_connection((HEAD, 80), 10, (source, 0)) as connection:
        connection.settimeout(5)
        answer = b""
        # Some are refused before they were heard to their end, which may look like this from here.
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(request)
            while piece := connection.recv(65536):
                answer += piece
    return answer


def test_a_node_enrolled_a_moment_ago_gets_its_address_first_stage_and_script(head: Head) -> None:
    address = head.enroll("gpu03", mac=mac(3))
    began = time.monotonic()
    lease = lease_of(head, mac(3), Architecture.BIOS)
    assert lease.address == address
    print(f"first lease {time.monotonic() - began:.2f} s after enrolment")  # noqa: T201
    assert (lease.server_id, lease.next_server, lease.boot_file) == (HEAD, HEAD, "undionly.kpxe")
    with head.nodes.inside():
        first_stage = tftp_fetch(HEAD, lease.boot_file)
    assert first_stage == Path("/usr/lib/ipxe/undionly.kpxe").read_bytes()
    script = get(head, address, "/boot").body.decode()
    assert script.startswith("#!ipxe\n")
    assert "node gpu03," in script


def test_a_real_client_gets_the_same(head: Head, running: Lab) -> None:
    """udhcpc, as operating systems run it."""
    host = running.host("real")
    head.wire.attach(host, "eth0", mac=OTHER)
    said = host.run(["udhcpc", "-i", "eth0", "-n", "-q", "-t", "5", "-s", "/bin/true"])
    address = head.address("gpu02")
    assert f"lease of {address} obtained from {HEAD}" in said.stderr + said.stdout
    eventually(lambda: head.events("gpu02", "dhcp.ack"))
    host.ip("link del eth0")


@pytest.mark.parametrize(
    ("architecture", "boot_file"),
    [
        (Architecture.BIOS, "undionly.kpxe"),
        (Architecture.UEFI_X64, "ipxe.efi"),
        (Architecture.UEFI_X64_EBC, "ipxe.efi"),
        (Architecture.UEFI_ARM64, "ipxe-arm64.efi"),
        (Architecture.UEFI_X64_HTTP, f"http://{HEAD}/tftp/ipxe.efi"),
        (Architecture.UEFI_ARM64_HTTP, f"http://{HEAD}/tftp/ipxe-arm64.efi"),
    ],
)
def test_each_architecture_gets_its_first_stage_and_then_its_script(
    head: Head, architecture: Architecture, boot_file: str
) -> None:
    lease = lease_of(head, NODE, architecture)
    assert lease.boot_file == boot_file
    answered = lease.ack.vendor_class
    assert answered == ("HTTPClient" if architecture.boots_over_http else ""), "firmware ignores HTTP offers without it"
    name = boot_file.rpartition("/")[2]
    if name != "ipxe-arm64.efi":  # Debian 12 has none; 'headnode check' says so
        source = Path("/usr/lib/ipxe") / name
        with head.nodes.inside():
            assert tftp_fetch(HEAD, name) == source.read_bytes()
        assert get(head, lease.address, f"/tftp/{name}").body == source.read_bytes()
    again = lease_of(head, NODE, architecture, ipxe=True)
    assert (again.boot_file, again.address) == (f"http://{HEAD}/boot", lease.address)
    assert "node gpu01," in get(head, lease.address, "/boot").body.decode()


def test_another_interface_of_the_head_node_gets_no_packet(head: Head, running: Lab) -> None:
    guest = running.host("guest")
    head.office.attach(guest, "eth0", address="192.168.7.9/24")
    from_head = bytes.fromhex(head.host.mac("eth2").replace(":", ""))
    with guest.inside():
        capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        with capture:
            capture.bind(("eth0", 0x0800))
            for who in (NODE, STRANGER):
                for architecture in (None, Architecture.BIOS):
                    assert replies("eth0", Client(who, architecture), 1.5) == []
            capture.settimeout(0.2)
            frames = []
            try:
                while True:
                    frames.append(capture.recv(2048))
            except TimeoutError:
                pass
        assert [frame for frame in frames if frame[6:12] == from_head] == []
        # Also who knows the address and routes to it is sent away.
        guest.ip("route add 10.20.0.0/16 via 192.168.7.1")
        head.host.ip("route add 10.20.0.0/16 dev eth0 metric 5")
        assert http_fetch(HEAD, "/boot", timeout=5).status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/boot/10.20.1.1.ipxe", "/boot/../boot/10.20.1.1.ipxe", "/boot/%2e%2e/10.20.1.1.ipxe", "/boot/", "/boot//",
        "/tftp/../published/http/boot/10.20.1.1.ipxe", "/tftp../published/http/boot/10.20.1.1.ipxe",
        "/images/../published/http/boot/10.20.1.1.ipxe", "/images..%2fpublished", "/ramdisk/..%2f..%2finventory.db",
        "/inventory.db", "/etc/passwd", "//etc/passwd", "/tftp/boot/10.20.1.1.grub", "/tftp/", "/images/", "/grub/",
        "/api/v1/nodes", "/", "/BOOT", "/boot.ipxe", "/boot%00", "/grub/../../inventory.db", "http://10.20.1.1/x",
    ],
)  # fmt: skip
def test_a_node_gets_nothing_that_is_not_its_own(head: Head, path: str) -> None:
    own, other = (head.address(name) for name in ("gpu01", "gpu02"))
    answer = get(head, own, path.replace("10.20.1.1", other))
    assert answer.status in (400, 403, 404)
    assert b"gpu02" not in answer.body
    assert b"SQLite" not in answer.body


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "10.20.1.1"}, {"X-Real-IP": "10.20.1.1"}, {"Forwarded": "for=10.20.1.1"},
        {"Host": "10.20.1.1"}, {"X-Original-URL": "/boot/10.20.1.1.ipxe"}, {"Range": "bytes=0-99999"},
    ],
)  # fmt: skip
def test_no_header_makes_a_node_another(head: Head, headers: dict[str, str]) -> None:
    own, other = (head.address(name) for name in ("gpu01", "gpu02"))
    answer = get(head, own, "/boot", {name: value.replace("10.20.1.1", other) for name, value in headers.items()})
    assert b"node gpu01," in answer.body or answer.status == 400
    assert b"gpu02" not in answer.body
    hello = get(head, own, "/node/v1/hello", {"X-Real-IP": other, "X-Forwarded-For": other})
    assert json.loads(hello.body)["name"] == "gpu01"


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /boot?" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /boot HTTP/1.1\r\nHost: x\r\nX: " + b"b" * 100_000 + b"\r\n\r\n",
        b"POST /boot HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nname",
        b"PUT /boot HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"DELETE /images/one-mib HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /boot\r\nX-Real-IP: 10.20.1.1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\x1b[2J\x9b31m HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET http://10.20.1.1/boot/10.20.1.1.ipxe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ],
)
def test_requests_that_no_node_would_send_get_nothing(head: Head, request_: bytes) -> None:
    own = head.address("gpu01")
    answer = raw_http(head, own, request_)
    assert b"gpu02" not in answer
    # A request without a version is HTTP/0.9, and is answered like one: with the asker's own script.
    assert answer.split(b" ", 2)[1:2] in ([b"400"], [b"404"], [b"405"], [b"414"]) or b"gpu01," in answer or not answer


def test_an_unknown_address_gets_a_harmless_script(head: Head) -> None:
    script = get(head, "10.20.250.9", "/boot").body.decode()
    assert "is not enrolled in demo; it starts from its own disk" in script
    assert get(head, "10.20.250.9", "/node/v1/hello").status == 404


def test_images_are_sent_whole_and_in_parts(head: Head) -> None:
    content = (head.paths.state / "images/one-mib").read_bytes()
    own = head.address("gpu01")
    assert get(head, own, "/images/one-mib").body == content
    part = get(head, own, "/images/one-mib", {"Range": "bytes=1000-1999"})
    assert (part.status, part.body) == (206, content[1000:2000])


@pytest.mark.parametrize("name", ["../inventory.db", "/etc/passwd", "grub/../../../inventory.db", "nothing", "x" * 400])
def test_tftp_gives_first_stages_and_nothing_else(head: Head, name: str) -> None:
    with head.nodes.inside(), pytest.raises(FetchFailed):
        tftp_fetch(HEAD, name, timeout=3)


def test_the_names_of_the_cluster(head: Head) -> None:
    address = head.address("gpu01")
    packed = socket.inet_aton(address)
    own_address(head, "10.20.250.9")
    reverse = ".".join(reversed(address.split("."))) + ".in-addr.arpa"
    with head.nodes.inside():
        assert dns(HEAD, "gpu01.demo.lan", 1) == [packed]
        assert dns(HEAD, "head.demo.lan", 1) == [socket.inet_aton(HEAD)]
        assert dns(HEAD, "gpu01.bmc.demo.lan", 1) == [socket.inet_aton("10.21.0.11")]
        assert [words(name) for name in dns(HEAD, reverse, 12)] == ["gpu01.demo.lan"]
        assert dns(HEAD, "nobody.demo.lan", 1) == []
        for service, port in (("_ldap._tcp", 389), ("_ntp._udp", 123), ("_slurmctld._tcp", 6817)):
            (answer,) = dns(HEAD, f"{service}.demo.lan", 33)
            assert struct.unpack_from("!HHH", answer)[2] == port
            assert words(answer[6:]).startswith("head")


def test_bmcs_get_their_addresses_on_the_management_network_only(head: Head, running: Lab) -> None:
    bmc = running.host("bmc")
    head.management.attach(bmc, "eth0")
    with bmc.inside():
        lease = acquire("eth0", Client(mac(0x1001)))
        assert (lease.address, lease.boot_file) == ("10.21.0.11", "")
        assert replies("eth0", Client(NODE), 2) == [], "a node's own NIC has no business there"
        assert replies("eth0", Client(STRANGER), 2) == []
    with head.nodes.inside():
        assert replies("eth0", Client(mac(0x1001)), 2) == []
    eventually(lambda: any("its BMC got 10.21.0.11" in event.message for event in head.events("gpu01", "bmc.dhcp")))


def test_adding_changing_and_removing_a_node_takes_effect(head: Head) -> None:
    address = head.enroll("gpu04", mac=mac(4))
    assert lease_of(head, mac(4)).address == address
    head.set("gpu04", address="10.20.77.7")
    took = eventually(lambda: lease_of(head, mac(4)).address == "10.20.77.7", 10)
    head.set("gpu04", mac=mac(0x44))
    took = max(took, eventually(lambda: offered(head, mac(0x44)) == {"10.20.77.7"}, 10))
    assert offered(head, mac(4)) == set()
    assert "node gpu04," in get(head, "10.20.77.7", "/boot").body.decode()
    head.retire("gpu04")
    took = max(took, eventually(lambda: offered(head, mac(0x44)) == set(), 10))
    assert "is not enrolled" in get(head, "10.20.77.7", "/boot").body.decode()
    print(f"changes took effect within {took:.2f} s")  # noqa: T201


def offered(head: Head, who: str) -> set[str]:
    with head.nodes.inside():
        return {answer.your_address for answer in replies("eth0", Client(who), 1)}


def test_fifty_rapid_enrolments_are_at_most_one_reload_a_second(head: Head) -> None:
    before, began = head.reloads(), time.monotonic()
    for number in range(50):
        head.enroll(f"fast{number}", mac=mac(0x500 + number))
    eventually(lambda: offered(head, mac(0x500 + 49)))
    reloads, seconds = head.reloads() - before, time.monotonic() - began
    print(f"{reloads} reloads in {seconds:.1f} s")  # noqa: T201
    assert reloads <= seconds + 1
    assert lease_of(head, mac(0x500)).address


def test_a_thousand_nodes_at_once_and_none_is_lost(head: Head) -> None:
    head.enroll("n[0000-0999]", mac=" ".join(synthetic_mac(number) for number in range(1000)))
    eventually(lambda: offered(head, synthetic_mac(999)))
    said = head.nodes.run([sys.executable, "-m", "headnode.lab.load", "--server", HEAD, "--file", "/images/one-mib"],
                          timeout=200)  # fmt: skip
    print(said.stdout)  # noqa: T201
    report = json.loads(said.stdout)
    assert (report["lost"], report["bytes"]) == (0, 1000 << 20)
    eventually(lambda: head.events("n0999", "http") and head.events("n0000", "dhcp.ack"), 60)


def test_hostile_packets_break_nothing(head: Head) -> None:
    """Every duty goes on, and what is written down can be shown on a terminal."""
    evil = "52:54:00:66:66:66"
    options: dict[int, bytes] = {
        Option.MESSAGE_TYPE: bytes([MessageType.DISCOVER]),
        Option.CLIENT_ID: b"\x1b[2J" * 150,
        Option.VENDOR_CLASS: b"PXEClient\x00\x1b]0;x\x07" * 10,
        Option.HOST_NAME: b"x\ndnsmasq-dhcp[1]: DHCPACK(eth0) 10.20.1.0 52:54:00:aa:00:02",
        Option.ARCHITECTURE: b"\xff\xff\x00",
        Option.USER_CLASS: b"\xff" * 200,
    }
    with head.nodes.inside(), Wire("eth0") as wire:
        for who in (evil, NODE):
            wire.send(Packet(Op.REQUEST, 7, who, options, broadcast=True))
        raw = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with raw:
            own = head.address("gpu01")
            own_address(head, own)
            raw.bind((own, 0))
            for name in (b"a b\x1b[2J", b"x not found for 10.20.1.1", b"\xff\xfe\x9b31m",
                         b"q\ndnsmasq-dhcp[1]: DHCPACK(eth0) 10.20.1.1 52:54:00:aa:00:02 x"):  # fmt: skip
                raw.sendto(struct.pack("!H", 1) + name + b"\0octet\0", (HEAD, 69))
            raw.sendto(struct.pack("!H", 1) + b"x" * 60_000, (HEAD, 69))
    agent = b'x","node":"gpu02\x1b[2J\\'
    raw_http(head, own, b"GET /node/\xc3\xa9\xc2\x9b HTTP/1.0\r\nUser-Agent: " + agent + b"\r\n\r\n")
    eventually(lambda: evil in head.seen())
    eventually(lambda: any("x not found" in event.message for event in head.events("gpu01", "tftp.failed")))
    assert not any("x not found" in event.message for event in head.events("gpu02"))
    assert not any(event.data.get("file") for event in head.events("gpu02"))
    for shown in (
        head.headnode("events").stdout,
        head.headnode("seen").stdout,
        head.headnode("events", "gpu01").stdout,
    ):
        assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert "stumbled" not in head.log()
    assert lease_of(head, NODE).address == own


def test_one_node_cannot_fill_the_record(head: Head) -> None:
    address = head.enroll("noisy", mac=mac(0x900))
    own_address(head, address)
    with head.nodes.inside():
        for number in range(600):
            http_fetch(HEAD, f"/nothing{number}", source=address)
    eventually(lambda: len(head.events("noisy", "http")) > 100)
    time.sleep(2)
    assert len(head.events("noisy", "http")) < 320


def test_unknown_hardware_is_seen_and_can_be_enrolled(head: Head) -> None:
    eventually(lambda: STRANGER in head.seen())
    found = head.seen()[STRANGER]
    assert found.architecture == "uefi_x64"
    assert found.client_id == "01" + STRANGER.replace(":", "")
    with head.nodes.inside():
        assert replies("eth0", Client("52:54:00:99:00:07", Architecture.BIOS), 1) == []
    eventually(lambda: "52:54:00:99:00:07" in head.seen())
    refused = head.headnode("enroll", "gpu07", "--seen", "--profile", "gpu", "--yes", check=False)
    assert refused.returncode == 2
    assert "say which with --mac" in refused.stderr
    chosen = "52-54-00-99-00-07".upper()
    head.headnode("enroll", "gpu07", "--seen", "--mac", chosen, "--profile", "gpu", "--yes")
    assert lease_of(head, "52:54:00:99:00:07").address == head.address("gpu07")
    assert "52:54:00:99:00:07" not in head.seen()


def test_the_record_tells_what_a_node_did(head: Head) -> None:
    address = head.enroll("told", mac=mac(0x901))
    lease_of(head, mac(0x901), Architecture.UEFI_X64)
    own_address(head, address)
    with head.nodes.inside():
        tftp_fetch(HEAD, "ipxe.efi", source=address)
        http_fetch(HEAD, "/boot", source=address, headers={"User-Agent": "iPXE/1.0.0"})
    eventually(lambda: head.events("told", "http"))
    messages = [event.message for event in head.events("told")]
    for wanted in ("asked for an address", f"was offered {address}", f"got {address}", "fetched ipxe.efi over TFTP",
                   "GET /boot: 200"):  # fmt: skip
        assert wanted in messages
    assert head.events("told", "http")[0].data["agent"] == "iPXE/1.0.0"


def test_a_foreign_server_that_appears_is_an_event_and_a_loud_status(
    head: Head, running: Lab, stranger: "Future[list[Packet]]"
) -> None:
    # The foreign server would answer the unknown machine too.
    stranger.result(60)
    rogue = start_rogue(running, head.wire)
    took = eventually(lambda: head.events(None, "dhcp.foreign"), 30)
    print(f"noticed after {took:.1f} s")  # noqa: T201
    event = head.events(None, "dhcp.foreign")[0]
    for word in (rogue.address, rogue.mac, "rogue.0"):
        assert word in event.message
    assert event.severity is Severity.ERROR
    checked = head.headnode("check", check=False)
    assert checked.returncode == 1
    assert rogue.address in checked.stdout
    assert rogue.address in head.headnode("seen").stderr
    rogue.stop()
    eventually(lambda: any("no more" in event.message for event in head.events(None, "dhcp.foreign")), 30)
    assert len(head.events(None, "dhcp.foreign")) == 2, "one when it came, one when it went"
    assert rogue.address not in head.headnode("seen").stderr


def test_everything_is_fine_when_nothing_is_wrong(head: Head) -> None:
    checked = head.headnode("check", check=False)
    failed = [line for line in checked.stdout.splitlines() if line.startswith("failed")]
    assert failed == []
    assert checked.returncode == 0


def test_the_unknown_machine_got_no_answer_in_30_seconds(head: Head, stranger: "Future[list[Packet]]") -> None:
    assert stranger.result(60) == []
    dhcp_log = (head.paths.logs / "dnsmasq.log").read_text()
    assert f"DHCPDISCOVER(eth0) {STRANGER} ignored" in dhcp_log, "it was heard, and not answered"
    assert f"DHCPOFFER(eth0) {STRANGER}" not in dhcp_log


def test_a_window_lends_to_unknown_hardware_and_closes_by_itself(head: Head) -> None:
    stray = "52:54:00:99:00:20"
    head.headnode("discover", "--for", "12s", "--range", "10.20.254.10-10.20.254.19", "--yes")
    eventually(lambda: offered(head, stray), 10)
    lease = lease_of(head, stray, Architecture.UEFI_X64, ipxe=True)
    assert lease.ack.lease_seconds == 120
    assert lease.address.startswith("10.20.254.1")
    assert "is unknown to demo and is looked at" in get(head, lease.address, "/boot").body.decode()
    assert lease_of(head, NODE).address == head.address("gpu01"), "nodes keep theirs"
    eventually(lambda: any("closed" in event.message for event in head.events(None, "discovery")), 30)
    eventually(lambda: offered(head, stray) == set(), 10)
    assert "is not enrolled" in get(head, lease.address, "/boot").body.decode()
    assert lease_of(head, NODE).address == head.address("gpu01")
    eventually(lambda: stray in head.seen())


def test_threads_are_all_alive_at_the_end(head: Head) -> None:
    """Nothing that came over the wire in this module made a duty stumble."""
    assert "stumbled" not in head.log()
    pid = head.pid("reconcile")
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) >= 8
    assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 60
    assert threading.active_count() < 20
