"""UDP datagrams with their IPv4 and Ethernet headers, for interfaces that have no address yet."""

import ipaddress
import struct
from dataclasses import dataclass

from pxe.dhcp import NOWHERE, InvalidPacket, address_bytes, mac_bytes, mac_text

ETHERNET = struct.Struct("!6s6sH")
IPV4 = struct.Struct("!BBHHHBBH4s4s")
UDP = struct.Struct("!HHHH")
ETHERTYPE_IPV4 = 0x0800
PROTOCOL_UDP = 17
MORE_FRAGMENTS_OR_OFFSET = 0x3FFF
LONGEST_PAYLOAD = 0xFFFF - IPV4.size - UDP.size
EVERYONE_MAC = "ff:ff:ff:ff:ff:ff"
EVERYONE = "255.255.255.255"


@dataclass(frozen=True)
class Datagram:
    payload: bytes
    source_mac: str
    source_port: int
    target_port: int
    target_mac: str = EVERYONE_MAC
    source: str = NOWHERE
    target: str = EVERYONE


def encode(datagram: Datagram) -> bytes:
    if len(datagram.payload) > LONGEST_PAYLOAD:
        raise InvalidPacket(f"a UDP datagram carries at most {LONGEST_PAYLOAD} bytes")
    source, target = address_bytes(datagram.source), address_bytes(datagram.target)
    length = UDP.size + len(datagram.payload)
    try:
        udp = UDP.pack(datagram.source_port, datagram.target_port, length, 0)
    except struct.error as error:
        raise InvalidPacket(f"the ports do not fit UDP: {error}") from error
    pseudo = source + target + struct.pack("!BBH", 0, PROTOCOL_UDP, length)
    # Zero means "no checksum" in UDP, so a sum of zero is sent as its other spelling.
    udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp + datagram.payload) or 0xFFFF)
    ip = IPV4.pack(0x45, 0, IPV4.size + length, 0, 0, 64, PROTOCOL_UDP, 0, source, target)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    ethernet = ETHERNET.pack(mac_bytes(datagram.target_mac), mac_bytes(datagram.source_mac), ETHERTYPE_IPV4)
    return ethernet + ip + udp + datagram.payload


def decode(frame: bytes) -> Datagram:
    """The datagram in a frame.

    The UDP checksum is not judged: on virtual wires the kernel hands over frames before it was filled in.
    """
    if len(frame) < ETHERNET.size + IPV4.size:
        raise InvalidPacket("the frame is too short for an IPv4 packet")
    target_mac, source_mac, kind = ETHERNET.unpack_from(frame)
    if kind != ETHERTYPE_IPV4:
        raise InvalidPacket(f"the frame carries 0x{kind:04x}, not IPv4")
    packet = frame[ETHERNET.size :]
    first, _, total, _, fragment, _, protocol, _, source, target = IPV4.unpack_from(packet)
    header = (first & 0x0F) * 4
    if first >> 4 != 4 or header < IPV4.size or not header + UDP.size <= total <= len(packet):
        raise InvalidPacket("the IPv4 header contradicts the frame's length")
    if protocol != PROTOCOL_UDP or fragment & MORE_FRAGMENTS_OR_OFFSET:
        raise InvalidPacket("the packet is not a whole UDP datagram")
    if checksum(packet[:header]) != 0:
        raise InvalidPacket("the IPv4 header's checksum is wrong")
    source_port, target_port, length, _ = UDP.unpack_from(packet, header)
    if not UDP.size <= length <= total - header:
        raise InvalidPacket("the UDP length contradicts the packet's length")
    return Datagram(
        payload=packet[header + UDP.size : header + length],
        source_mac=mac_text(source_mac), target_mac=mac_text(target_mac),
        source=str(ipaddress.IPv4Address(source)), target=str(ipaddress.IPv4Address(target)),
        source_port=source_port, target_port=target_port,
    )  # fmt: skip


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071); over data that includes a right one, it is zero."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(word for (word,) in struct.iter_unpack("!H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
