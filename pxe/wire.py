"""DHCP on an interface as raw frames: a client's view that works without any address, and a listener's."""

import ctypes
import socket
import struct
import time
from types import TracebackType
from typing import Self

from headnode.errors import HeadnodeError, NotFound
from pxe import dhcp, frames
from pxe.dhcp import InvalidPacket
from pxe.frames import ETHERTYPE_IPV4, Datagram

SERVER_PORT, CLIENT_PORT = 67, 68
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 263, 1, 1
SO_ATTACH_FILTER, SO_RCVBUFFORCE = 26, 33
RECEIVE_BUFFER = 16 * 1024 * 1024


class Wire:
    """Sends DHCP requests and hears DHCP replies (or the requests of others) on one interface, for any hardware."""

    def __init__(self, interface: str, hears: dhcp.Op = dhcp.Op.REPLY) -> None:
        self.interface = interface
        self._hears = hears
        try:
            self._index = socket.if_nametoindex(interface)
        except OSError as error:
            raise NotFound(f"there is no network interface '{interface}'", hint="'ip link' lists them") from error
        try:
            self._socket = _listening_socket(interface, self._index, hears)
        except PermissionError as error:
            raise HeadnodeError(f"looking at raw frames on '{interface}' needs to be root") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, packet: dhcp.Packet) -> None:
        datagram = Datagram(
            payload=dhcp.encode(packet),
            source_mac=packet.mac,
            source_port=CLIENT_PORT,
            target_port=SERVER_PORT,
        )
        try:
            self._socket.send(frames.encode(datagram))
        except OSError as error:
            raise HeadnodeError(
                f"nothing can be sent on '{self.interface}': {error.strerror}",
                hint=f"is it up? 'ip link set {self.interface} up'",
            ) from error

    def receive(self, deadline: float) -> tuple[dhcp.Packet, Datagram] | None:
        """The next packet before the (monotonic) deadline; what is not DHCP is passed over."""
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                datagram = frames.decode(self._socket.recv(0xFFFF))
                packet = dhcp.decode(datagram.payload)
            except TimeoutError:
                return None
            except InvalidPacket:
                continue
            except OSError as error:
                raise HeadnodeError(f"nothing can be heard on '{self.interface}': {error.strerror}") from error
            if packet.op is self._hears:
                return packet, datagram
        return None


def _listening_socket(interface: str, index: int, hears: dhcp.Op) -> socket.socket:
    # Protocol 0 hears nothing until bind, so that no frame slips in before the filter is there.
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        _attach_filter(raw, CLIENT_PORT if hears is dhcp.Op.REPLY else SERVER_PORT)
        # Servers answer to the asker's hardware address, which is not this interface's own.
        membership = struct.pack("=iHH8s", index, PACKET_MR_PROMISC, 0, b"")
        raw.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
        raw.bind((interface, ETHERTYPE_IPV4))
    except BaseException:
        raw.close()
        raise
    return raw


def _attach_filter(raw: socket.socket, port: int) -> None:
    """Classic BPF for "IPv4, UDP, not a later fragment, to this port".

    Without it, a busy interface's other traffic would push what we wait for out of the socket's queue. Each
    instruction is (code, jump if true, jump if false, value).
    """
    instructions = (
        (0x28, 0, 0, 12), (0x15, 0, 8, ETHERTYPE_IPV4),
        (0x30, 0, 0, 23), (0x15, 0, 6, 17),
        (0x28, 0, 0, 20), (0x45, 4, 0, 0x1FFF),
        (0xB1, 0, 0, 14), (0x48, 0, 0, 16), (0x15, 0, 1, port),
        (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0),
    )  # fmt: skip
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in instructions))
    pointer = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    raw.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, pointer)
