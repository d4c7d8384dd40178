"""The DHCP codec: what goes in comes out, and garbage is one kind of error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pxe import dhcp
from pxe.dhcp import Architecture, InvalidPacket, MessageType, Op, Option, Packet

MAC = "52:54:00:aa:00:01"
latin = st.characters(min_codepoint=1, max_codepoint=255)
codes = st.integers(1, 254).filter(lambda code: code != dhcp.OVERLOAD)
addresses = st.ip_addresses(v=4).map(str)
packets = st.builds(
    Packet,
    op=st.sampled_from(Op),
    xid=st.integers(0, 2**32 - 1),
    mac=st.binary(min_size=6, max_size=6).map(dhcp.mac_text),
    options=st.dictionaries(codes, st.binary(max_size=600), max_size=8),
    seconds=st.integers(0, 2**16 - 1),
    broadcast=st.booleans(),
    client_address=addresses,
    your_address=addresses,
    next_server=addresses,
    relay=addresses,
    server_name=st.text(latin, max_size=64),
    file=st.text(latin, max_size=128),
    hops=st.integers(0, 255),
)


def with_options(**values: bytes) -> Packet:
    return Packet(Op.REQUEST, 1, MAC, {Option[name.upper()]: value for name, value in values.items()})


@given(packets)
def test_what_is_encoded_is_decoded_again(packet: Packet) -> None:
    assert dhcp.decode(dhcp.encode(packet)) == packet


@given(st.binary(max_size=700))
def test_garbage_is_an_invalid_packet_or_a_packet(data: bytes) -> None:
    refused_or_readable(data)


@given(st.binary(max_size=400), st.binary(min_size=64, max_size=64), st.binary(min_size=128, max_size=128))
def test_garbage_behind_a_good_header_too(options: bytes, name: bytes, file: bytes) -> None:
    header = dhcp.encode(Packet(Op.REPLY, 7, MAC))[: dhcp.HEADER.size]
    refused_or_readable(header[:44] + name + file + dhcp.COOKIE + options)


@given(packets, st.data())
def test_a_damaged_packet_never_raises_anything_else(packet: Packet, data: st.DataObject) -> None:
    encoded = bytearray(dhcp.encode(packet))
    for position in data.draw(st.lists(st.integers(0, len(encoded) - 1), max_size=10)):
        encoded[position] = data.draw(st.integers(0, 255))
    refused_or_readable(bytes(encoded[: data.draw(st.integers(0, len(encoded)))]))


def refused_or_readable(data: bytes) -> None:
    """Refused with our own error, or a packet every property of which can be read."""
    try:
        packet = dhcp.decode(data)
    except InvalidPacket:
        return
    for name in (name for name, kind in vars(Packet).items() if isinstance(kind, property)):
        getattr(packet, name)


@pytest.mark.parametrize(
    ("packet", "said"),
    [
        (Packet(Op.REQUEST, 1, "52:54"), "hardware address"),
        (Packet(Op.REQUEST, 1, "zz:54:00:aa:00:01"), "hardware address"),
        (Packet(Op.REQUEST, 1, MAC, next_server="head"), "IPv4 address"),
        (Packet(Op.REQUEST, 2**32, MAC), "header"),
        (Packet(Op.REQUEST, 1, MAC, seconds=-1), "header"),
        (Packet(Op.REQUEST, 1, MAC, file="x" * 129), "boot file"),
        (Packet(Op.REQUEST, 1, MAC, server_name="a\0b"), "server name"),
        (Packet(Op.REQUEST, 1, MAC, file="→"), "boot file"),
        (Packet(Op.REQUEST, 1, MAC, {255: b""}), "option"),
        (Packet(Op.REQUEST, 1, MAC, {0: b""}), "option"),
        (Packet(Op.REQUEST, 1, MAC, {52: b"\1"}), "option"),
    ],
)
def test_what_cannot_be_encoded_is_said_in_a_sentence(packet: Packet, said: str) -> None:
    with pytest.raises(InvalidPacket, match=said):
        dhcp.encode(packet)


def test_the_message_type_comes_first_and_small_packets_are_padded() -> None:
    packet = Packet(Op.REQUEST, 1, MAC, {Option.VENDOR_CLASS: b"x", Option.MESSAGE_TYPE: b"\1"})
    encoded = dhcp.encode(packet)
    assert len(encoded) == dhcp.SHORTEST
    assert encoded[dhcp.HEADER.size :].startswith(b"\x35\x01\x01\x3c\x01x\xff")


def test_options_read_as_what_they_mean() -> None:
    packet = with_options(
        message_type=b"\2",
        server_id=b"\x0a\x14\0\1",
        requested_address=b"\x0a\x14\1\1",
        lease_seconds=b"\0\0\x0e\x10",
        parameter_list=b"\1\3\x43",
        vendor_class=b"PXEClient:Arch:00007",
        client_id=b"\1abc",
        tftp_server=b"head",
        boot_file=b"ipxe.efi\0",
        architecture=b"\0\7",
        network_interface=b"\1\3\x10",
        machine_id=b"\0" + b"u" * 16,
    )
    assert packet.message_type is MessageType.OFFER
    assert (packet.server_id, packet.requested_address) == ("10.20.0.1", "10.20.1.1")
    assert packet.lease_seconds == 3600
    assert packet.parameter_list == (1, 3, 67)
    assert packet.vendor_class == "PXEClient:Arch:00007"
    assert packet.client_id == b"\1abc"
    assert (packet.tftp_server, packet.boot_file) == ("head", "ipxe.efi")
    assert packet.architecture is Architecture.UEFI_X64
    assert packet.network_interface == (1, 3, 16)
    assert packet.machine_id == b"u" * 16


def test_absent_or_malformed_options_read_as_absent() -> None:
    packet = with_options(
        message_type=b"\x63", server_id=b"\1", lease_seconds=b"", architecture=b"\0", machine_id=b"\1"
    )
    assert packet.message_type is None
    assert packet.server_id is None
    assert packet.lease_seconds is None
    assert packet.architecture is None
    assert packet.machine_id is None


@pytest.mark.parametrize("value", [b"iPXE", b"\4iPXE", b"\3foo\4iPXE"])
def test_ipxe_is_recognised_in_both_spellings(value: bytes) -> None:
    assert with_options(user_class=value).is_ipxe


@pytest.mark.parametrize("value", [b"", b"ipxe", b"\4gPXE"])
def test_other_user_classes_are_not_ipxe(value: bytes) -> None:
    assert not with_options(user_class=value).is_ipxe


@pytest.mark.parametrize(
    ("value", "architecture"),
    [
        (b"\0\0", Architecture.BIOS),
        (b"\0\7", Architecture.UEFI_X64),
        (b"\0\x09", Architecture.UEFI_X64_EBC),
        (b"\0\x0b", Architecture.UEFI_ARM64),
        (b"\0\x10", Architecture.UEFI_X64_HTTP),
        (b"\0\x13", Architecture.UEFI_ARM64_HTTP),
        (b"\0\x63\0\7", Architecture.UEFI_X64),
        (b"\0\x63", None),
    ],
)
def test_architectures(value: bytes, architecture: Architecture | None) -> None:
    assert with_options(architecture=value).architecture is architecture


def test_http_firmware_says_so() -> None:
    assert Architecture.UEFI_X64_HTTP.vendor_class == "HTTPClient:Arch:00016:UNDI:003016"
    assert Architecture.BIOS.vendor_class == "PXEClient:Arch:00000:UNDI:003016"


def test_options_in_the_overloaded_file_and_name_fields_are_found() -> None:
    header = dhcp.encode(Packet(Op.REPLY, 1, MAC))[: dhcp.HEADER.size]
    name = b"\x42\x04head\xff".ljust(64, b"\0")
    file = b"\x43\x08ipxe.efi\xff".ljust(128, b"\0")
    packet = dhcp.decode(header[:44] + name + file + dhcp.COOKIE + b"\x34\x01\x03\xff")
    assert (packet.tftp_server, packet.boot_file) == ("head", "ipxe.efi")
    assert (packet.server_name, packet.file) == ("", "")


def test_infiniband_is_refused_by_name() -> None:
    encoded = bytearray(dhcp.encode(Packet(Op.REQUEST, 1, MAC)))
    encoded[1] = 32
    with pytest.raises(InvalidPacket, match="hardware type 32"):
        dhcp.decode(bytes(encoded))
