"""Names, records, consoles and synthetic clients: the parts of the lab that need no root."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError, InvalidField
from headnode.lab import net, process
from headnode.lab.client import Client
from headnode.lab.load import Report, load, synthetic_mac
from headnode.lab.process import listens, started, stop_recorded
from headnode.lab.qemu import ESCAPES
from headnode.lab.qmp import Qmp
from pxe.dhcp import Architecture, MessageType, Op, Option, Packet

MAC = "52:54:00:aa:00:01"


@pytest.mark.parametrize("name", ["", "a-b", "A", "x" * 13, "a b", "a/b", ".."])
def test_lab_names_are_one_short_word(name: str) -> None:
    with pytest.raises(InvalidField):
        net.namespace_name(name, "head")
    with pytest.raises(InvalidField):
        net.namespaces(name)


def test_one_labs_prefix_is_never_the_beginning_of_anothers() -> None:
    assert net.namespace_name("a", "b") == "hnl-a-b"
    assert not net.namespace_name("ab", "c").startswith("hnl-a-")


@pytest.mark.parametrize("name", ["", "x" * 16, "a b", "a/b", "a\nlink del lo"])
def test_link_names_are_what_the_kernel_takes(name: str) -> None:
    with pytest.raises(InvalidField):
        net.link_name(name)


def test_a_process_is_named_by_its_id_and_its_start() -> None:
    assert started(os.getpid()) == started(os.getpid())
    assert started(os.getpid()) is not None
    assert started(2**22 + 1) is None


def test_a_record_of_another_process_with_the_same_id_kills_nobody(tmp_path: Path) -> None:
    boot = process.BOOT.read_text().strip()
    (tmp_path / "1.json").write_text(json.dumps({"pid": os.getpid(), "started": 1, "boot": boot}))
    # The same number at the same moment after another boot.
    (tmp_path / "4.json").write_text(
        json.dumps({"pid": os.getpid(), "started": started(os.getpid()), "boot": "another"})
    )
    (tmp_path / "2.json").write_text("not json")
    (tmp_path / "3.json").write_text("{}")
    stop_recorded(tmp_path, "lab", [])


def test_listening_is_seen_in_proc() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listens(os.getpid(), "tcp", port)
        assert not listens(os.getpid(), "udp", port)
    assert not listens(2**22 + 1, "tcp", port)


def test_a_console_is_read_without_its_colours() -> None:
    assert ESCAPES.sub("", "\x1b[2J\x1b[01;01HBoo\x1b[0mted\r\n\x1b[=3h") == "Booted\n"


def test_a_client_says_what_its_firmware_is() -> None:
    packet = Client(MAC, Architecture.UEFI_ARM64, ipxe=True).discover(5)
    assert packet.message_type is MessageType.DISCOVER
    assert packet.architecture is Architecture.UEFI_ARM64
    assert packet.vendor_class == "PXEClient:Arch:00011:UNDI:003016"
    assert packet.is_ipxe
    assert Client(MAC).discover(5).vendor_class == ""


def test_a_client_requests_what_was_offered_from_who_offered_it() -> None:
    offer = Packet(Op.REPLY, 9, MAC, {Option.SERVER_ID: b"\x0a\x14\0\1"}, your_address="10.20.1.1")
    request = Client(MAC).request(offer)
    assert (request.xid, request.requested_address, request.server_id) == (9, "10.20.1.1", "10.20.0.1")


def test_synthetic_macs_are_distinct_and_locally_administered() -> None:
    macs = {synthetic_mac(number) for number in range(3000)}
    assert len(macs) == 3000
    assert all(int(mac[:2], 16) & 0b11 == 0b10 for mac in macs)


def test_a_report_counts_the_worst_step_as_lost() -> None:
    assert Report(10, 10, 9, 10, 8, 0, 0.0, 0.0).lost == 2


@pytest.mark.parametrize("count", [0, -1, 1_000_000])
def test_a_load_is_bounded(count: int) -> None:
    with pytest.raises(HeadnodeError, match="1 to 20000"):
        load("lo", count, server="127.0.0.1")


def test_qmp_passes_over_events_and_reports_refusals(tmp_path: Path) -> None:
    path = tmp_path / "qmp.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=answer_like_qemu, args=(server,))
        thread.start()
        with Qmp(path) as qmp:
            assert qmp.execute("query-status") == {"status": "running"}
            with pytest.raises(HeadnodeError, match="no such thing"):
                qmp.execute("nonsense")
            with pytest.raises(HeadnodeError, match="went away"):
                qmp.execute("quit")
        thread.join()
    with pytest.raises(HeadnodeError, match="does not answer"):
        Qmp(tmp_path / "absent.sock")


def answer_like_qemu(server: socket.socket) -> None:
    connection, _ = server.accept()
    replies = [
        b'{"return": {}}\n',
        b'{"event": "RESUME"}\n{"return": {"status": "running"}}\n',
        b'{"error": {"class": "CommandNotFound", "desc": "no such thing"}}\n',
    ]
    with connection, connection.makefile("rb") as lines:
        connection.sendall(b'{"QMP": {}}\n')
        for reply in replies:
            lines.readline()
            connection.sendall(reply)
        lines.readline()
