"""DHCPv4 packets as data: encode, decode, and the options a network boot uses (RFC 2131, 2132, 4578).

Whatever arrives from the wire either becomes a Packet or raises InvalidPacket, nothing else.
"""

import ipaddress
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from headnode.errors import HeadnodeError

HEADER = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s4s")
COOKIE = b"\x63\x82\x53\x63"
BROADCAST = 0x8000
# BOOTP's fixed size: some relays and firmwares drop anything shorter.
SHORTEST = 300
PAD, OVERLOAD, END = 0, 52, 255
NOWHERE = "0.0.0.0"  # noqa: S104 — DHCP's "no address", nothing is bound to it


class InvalidPacket(HeadnodeError):
    """These bytes are not the packet they should be, or this packet cannot be put into bytes."""


class Op(IntEnum):
    REQUEST = 1
    REPLY = 2


class MessageType(IntEnum):
    DISCOVER = 1
    OFFER = 2
    REQUEST = 3
    DECLINE = 4
    ACK = 5
    NAK = 6
    RELEASE = 7
    INFORM = 8


class Option(IntEnum):
    SUBNET_MASK = 1
    ROUTER = 3
    DNS_SERVER = 6
    HOST_NAME = 12
    DOMAIN = 15
    REQUESTED_ADDRESS = 50
    LEASE_SECONDS = 51
    MESSAGE_TYPE = 53
    SERVER_ID = 54
    PARAMETER_LIST = 55
    MAX_SIZE = 57
    VENDOR_CLASS = 60
    CLIENT_ID = 61
    TFTP_SERVER = 66
    BOOT_FILE = 67
    USER_CLASS = 77
    ARCHITECTURE = 93
    NETWORK_INTERFACE = 94
    MACHINE_ID = 97


class Architecture(IntEnum):
    """What firmware asks, as option 93 says it (IANA's processor architecture types)."""

    BIOS = 0
    UEFI_X64 = 7
    UEFI_X64_EBC = 9
    UEFI_ARM64 = 11
    UEFI_X64_HTTP = 16
    UEFI_ARM64_HTTP = 19

    @property
    def boots_over_http(self) -> bool:
        return self in (Architecture.UEFI_X64_HTTP, Architecture.UEFI_ARM64_HTTP)

    @property
    def vendor_class(self) -> str:
        """Option 60 as such firmware sends it; servers choose the boot file by it."""
        client = "HTTPClient" if self.boots_over_http else "PXEClient"
        return f"{client}:Arch:{self:05d}:UNDI:003016"


@dataclass(frozen=True)
class Packet:
    op: Op
    xid: int
    mac: str
    options: Mapping[int, bytes] = field(default_factory=dict)
    seconds: int = 0
    broadcast: bool = False
    client_address: str = NOWHERE
    your_address: str = NOWHERE
    next_server: str = NOWHERE
    relay: str = NOWHERE
    server_name: str = ""
    file: str = ""
    hops: int = 0

    @property
    def message_type(self) -> MessageType | None:
        value = self.options.get(Option.MESSAGE_TYPE, b"")
        return MessageType(value[0]) if len(value) == 1 and value[0] in set(MessageType) else None

    @property
    def server_id(self) -> str | None:
        return self.address_option(Option.SERVER_ID)

    @property
    def requested_address(self) -> str | None:
        return self.address_option(Option.REQUESTED_ADDRESS)

    @property
    def lease_seconds(self) -> int | None:
        value = self.options.get(Option.LEASE_SECONDS, b"")
        return int.from_bytes(value, "big") if len(value) == 4 else None

    @property
    def parameter_list(self) -> tuple[int, ...]:
        return tuple(self.options.get(Option.PARAMETER_LIST, b""))

    @property
    def vendor_class(self) -> str:
        return self.text_option(Option.VENDOR_CLASS)

    @property
    def client_id(self) -> bytes:
        return self.options.get(Option.CLIENT_ID, b"")

    @property
    def tftp_server(self) -> str:
        return self.text_option(Option.TFTP_SERVER) or self.server_name

    @property
    def boot_file(self) -> str:
        return self.text_option(Option.BOOT_FILE) or self.file

    @property
    def user_classes(self) -> tuple[str, ...]:
        """iPXE sends the bare word, RFC 3004 wants each word behind its length: both are understood."""
        value = self.options.get(Option.USER_CLASS, b"")
        listed = _length_prefixed(value)
        return tuple(word.decode("latin-1") for word in (listed if listed is not None else [value]) if word)

    @property
    def is_ipxe(self) -> bool:
        return "iPXE" in self.user_classes

    @property
    def architecture(self) -> Architecture | None:
        """The first one we know; option 93 may list several."""
        value = self.options.get(Option.ARCHITECTURE, b"")
        codes = [int.from_bytes(value[i : i + 2], "big") for i in range(0, len(value) - 1, 2)]
        return next((Architecture(code) for code in codes if code in set(Architecture)), None)

    @property
    def network_interface(self) -> tuple[int, int, int] | None:
        """Option 94: kind (1 is UNDI), major and minor version."""
        value = self.options.get(Option.NETWORK_INTERFACE, b"")
        return (value[0], value[1], value[2]) if len(value) == 3 else None

    @property
    def machine_id(self) -> bytes | None:
        """Option 97: the firmware's UUID, behind a type byte that is always zero."""
        value = self.options.get(Option.MACHINE_ID, b"")
        return value[1:] if len(value) == 17 and value[0] == 0 else None

    def address_option(self, option: int) -> str | None:
        value = self.options.get(option, b"")
        return str(ipaddress.IPv4Address(value)) if len(value) == 4 else None

    def text_option(self, option: int) -> str:
        return _text(self.options.get(option, b""))


def encode(packet: Packet) -> bytes:
    """The packet as bytes, padded to the size that every relay lets through."""
    try:
        header = HEADER.pack(
            packet.op, 1, 6, packet.hops, packet.xid, packet.seconds, BROADCAST if packet.broadcast else 0,
            address_bytes(packet.client_address), address_bytes(packet.your_address),
            address_bytes(packet.next_server), address_bytes(packet.relay), mac_bytes(packet.mac),
            _field(packet.server_name, 64, "server name"), _field(packet.file, 128, "boot file"), COOKIE,
        )  # fmt: skip
    except struct.error as error:
        raise InvalidPacket(f"the packet does not fit DHCP's header: {error}") from error
    body = b"".join(_encoded_option(code, packet.options[code]) for code in _wire_order(packet.options))
    return (header + body + bytes([END])).ljust(SHORTEST, b"\0")


def decode(data: bytes) -> Packet:
    if len(data) < HEADER.size:
        raise InvalidPacket(f"a DHCP packet has at least {HEADER.size} bytes; this one has {len(data)}")
    (
        op,
        hardware,
        length,
        hops,
        xid,
        seconds,
        flags,
        client,
        yours,
        server,
        relay,
        mac,
        name,
        file,
        cookie,
    ) = HEADER.unpack_from(data)
    if cookie != COOKIE:
        raise InvalidPacket("the packet is BOOTP or something else: DHCP's magic cookie is missing")
    if op not in set(Op):
        raise InvalidPacket(f"the packet is neither a request nor a reply: its op is {op}")
    if (hardware, length) != (1, 6):
        raise InvalidPacket(f"only Ethernet is understood; the packet has hardware type {hardware}, length {length}")
    options, name, file = _all_options(data[HEADER.size :], name, file)
    return Packet(
        op=Op(op), xid=xid, mac=mac_text(mac[:6]), options=options, seconds=seconds,
        broadcast=bool(flags & BROADCAST), client_address=str(ipaddress.IPv4Address(client)),
        your_address=str(ipaddress.IPv4Address(yours)), next_server=str(ipaddress.IPv4Address(server)),
        relay=str(ipaddress.IPv4Address(relay)), server_name=_text(name), file=_text(file), hops=hops,
    )  # fmt: skip


def mac_bytes(mac: str) -> bytes:
    try:
        value = bytes.fromhex(mac.replace(":", ""))
    except ValueError:
        value = b""
    if len(value) != 6:
        raise InvalidPacket(f"'{mac}' is not a hardware address such as 52:54:00:aa:00:01")
    return value


def mac_text(value: bytes) -> str:
    return value.hex(":")


def address_bytes(address: str) -> bytes:
    try:
        return ipaddress.IPv4Address(address).packed
    except ValueError:
        raise InvalidPacket(f"'{address}' is not an IPv4 address such as 10.20.1.1") from None


def _wire_order(options: Mapping[int, bytes]) -> list[int]:
    # Message type first: a few firmwares only look there.
    return sorted(options, key=lambda code: code != Option.MESSAGE_TYPE)


def _encoded_option(code: int, value: bytes) -> bytes:
    """One option; a value above 255 bytes is split into several of the same code (RFC 3396)."""
    if not PAD < code < END or code == OVERLOAD:
        raise InvalidPacket(f"{code} is not a DHCP option that carries a value")
    pieces = [value[i : i + 255] for i in range(0, len(value), 255)] or [b""]
    return b"".join(bytes([code, len(piece)]) + piece for piece in pieces)


def _all_options(data: bytes, name: bytes, file: bytes) -> tuple[dict[int, bytes], bytes, bytes]:
    """The options, also those that an overloading server put into the name and file fields."""
    options = dict(_collected(_parsed(data)))
    overload = options.pop(OVERLOAD, b"\0")[-1:] or b"\0"
    in_file, in_name = bool(overload[0] & 1), bool(overload[0] & 2)
    more = (file if in_file else b"", name if in_name else b"")
    for code, value in (pair for part in more for pair in _parsed(part)):
        if code != OVERLOAD:
            options[code] = options.get(code, b"") + value
    return options, b"" if in_name else name, b"" if in_file else file


def _collected(pairs: Iterator[tuple[int, bytes]]) -> dict[int, bytes]:
    options: dict[int, bytes] = {}
    for code, value in pairs:
        options[code] = options.get(code, b"") + value
    return options


def _parsed(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data) and data[position] != END:
        if data[position] == PAD:
            position += 1
            continue
        if position + 1 >= len(data):
            raise InvalidPacket(f"option {data[position]} has no length")
        end = position + 2 + data[position + 1]
        if end > len(data):
            raise InvalidPacket(f"option {data[position]} is longer than the packet")
        yield data[position], data[position + 2 : end]
        position = end


def _length_prefixed(value: bytes) -> list[bytes] | None:
    words, position = [], 0
    while position < len(value):
        end = position + 1 + value[position]
        if end > len(value):
            return None
        words.append(value[position + 1 : end])
        position = end
    return words


def _field(text: str, size: int, what: str) -> bytes:
    try:
        value = text.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidPacket(f"the {what} '{text}' has characters that DHCP cannot carry") from None
    if len(value) > size or b"\0" in value:
        raise InvalidPacket(f"the {what} '{text}' does not fit: at most {size} characters, no NUL")
    return value


def _text(value: bytes) -> str:
    return value.split(b"\0", 1)[0].decode("latin-1")
