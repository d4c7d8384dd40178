"""Synthetic nodes: DHCP clients of any hardware address and architecture."""

import secrets
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headnode.errors import HeadnodeError
from pxe import probe
from pxe.dhcp import Architecture, MessageType, Op, Option, Packet, address_bytes, mac_bytes
from pxe.wire import Wire

RETRY = 1.0
WANTED = bytes(
    [
        Option.SUBNET_MASK,
        Option.ROUTER,
        Option.DNS_SERVER,
        Option.HOST_NAME,
        Option.TFTP_SERVER,
        Option.BOOT_FILE,
    ]
)


@dataclass(frozen=True)
class Client:
    """Who asks. Without an architecture it is an operating system's client, with one it is firmware."""

    mac: str
    architecture: Architecture | None = None
    ipxe: bool = False

    def options(self, message: MessageType) -> dict[int, bytes]:
        options: dict[int, bytes] = {
            Option.MESSAGE_TYPE: bytes([message]),
            Option.PARAMETER_LIST: WANTED,
            Option.MAX_SIZE: (1472).to_bytes(2, "big"),
            Option.CLIENT_ID: b"\x01" + mac_bytes(self.mac),
        }
        if self.architecture is not None:
            options[Option.VENDOR_CLASS] = self.architecture.vendor_class.encode()
            options[Option.ARCHITECTURE] = self.architecture.to_bytes(2, "big")
            options[Option.NETWORK_INTERFACE] = bytes([1, 3, 16])
            options[Option.MACHINE_ID] = b"\0" + mac_bytes(self.mac).rjust(16, b"\0")
        if self.ipxe:
            options[Option.USER_CLASS] = b"iPXE"
        return options

    def discover(self, xid: int) -> Packet:
        return Packet(Op.REQUEST, xid, self.mac, self.options(MessageType.DISCOVER), broadcast=True)

    def request(self, offer: Packet) -> Packet:
        chosen: dict[int, bytes] = {
            Option.REQUESTED_ADDRESS: address_bytes(offer.your_address),
            Option.SERVER_ID: offer.options.get(Option.SERVER_ID, b""),
        }
        options = {**self.options(MessageType.REQUEST), **chosen}
        return Packet(Op.REQUEST, offer.xid, self.mac, options, broadcast=True)


@dataclass(frozen=True)
class Lease:
    client: Client
    address: str
    ack: Packet
    seconds: float

    @property
    def server_id(self) -> str | None:
        return self.ack.server_id

    @property
    def boot_file(self) -> str:
        return self.ack.boot_file

    @property
    def next_server(self) -> str:
        return self.ack.next_server


@dataclass
class _Exchange:
    """One client between its first DISCOVER and its ACK."""

    client: Client
    said: Packet
    began: float = field(default_factory=time.monotonic)
    repeat_at: float = field(default_factory=lambda: time.monotonic() + RETRY)


def offers(interface: str, client: Client, seconds: float) -> list[Packet]:
    """Ask once a second for as long as told; every offer that came."""
    return [answer for answer in replies(interface, client, seconds) if probe.is_offer(answer)]


def replies(interface: str, client: Client, seconds: float) -> list[Packet]:
    """The same, but whatever any server said to this client, a refusal too."""
    heard: list[Packet] = []
    with Wire(interface) as wire:
        deadline = time.monotonic() + seconds
        while (now := time.monotonic()) < deadline:
            wire.send(client.discover(secrets.randbits(32)))
            while answer := wire.receive(min(now + RETRY, deadline)):
                if answer[0].mac == client.mac:
                    heard.append(answer[0])
    return heard


def acquire(interface: str, client: Client, timeout: float = 10.0) -> Lease:
    """DISCOVER, OFFER, REQUEST, ACK."""
    leases = acquire_all(interface, [client], timeout=timeout)
    if not leases:
        raise HeadnodeError(f"{client.mac} got no address on '{interface}' within {timeout:g} seconds")
    return leases[0]


def acquire_all(interface: str, clients: Sequence[Client], *, window: int = 64, timeout: float = 60.0) -> list[Lease]:
    """Many clients, at most `window` of them asking at any moment; who got no lease is missing from the list.

    Like real firmware, each repeats its last question when no answer comes.
    """
    leases: list[Lease] = []
    waiting = deque(clients)
    asking: dict[int, _Exchange] = {}
    deadline = time.monotonic() + timeout
    with Wire(interface) as wire:
        while (waiting or asking) and time.monotonic() < deadline:
            while waiting and len(asking) < window:
                client, xid = waiting.popleft(), _unused(asking)
                asking[xid] = _Exchange(client, client.discover(xid))
                wire.send(asking[xid].said)
            answer = wire.receive(min(deadline, time.monotonic() + RETRY / 4))
            lease = _advance(wire, asking, answer[0]) if answer else None
            if lease:
                leases.append(lease)
            _repeat(wire, asking.values())
    return leases


def _advance(wire: Wire, asking: dict[int, _Exchange], answer: Packet) -> Lease | None:
    exchange = asking.get(answer.xid)
    if exchange is None or answer.mac != exchange.client.mac:
        return None
    requested = exchange.said.message_type is MessageType.REQUEST
    if answer.message_type is MessageType.OFFER and not requested:
        _say(wire, exchange, exchange.client.request(answer))
    elif answer.message_type is MessageType.NAK and requested:
        _say(wire, exchange, exchange.client.discover(answer.xid))
    elif answer.message_type is MessageType.ACK and requested:
        del asking[answer.xid]
        return Lease(exchange.client, answer.your_address, answer, time.monotonic() - exchange.began)
    return None


def _repeat(wire: Wire, exchanges: Iterable[_Exchange]) -> None:
    now = time.monotonic()
    for exchange in exchanges:
        if exchange.repeat_at <= now:
            _say(wire, exchange, exchange.said)


def _say(wire: Wire, exchange: _Exchange, packet: Packet) -> None:
    exchange.said = packet
    exchange.repeat_at = time.monotonic() + RETRY
    wire.send(packet)


def _unused(asking: dict[int, _Exchange]) -> int:
    while (xid := secrets.randbits(32)) in asking:
        pass
    return xid
