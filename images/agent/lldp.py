"""Which switch, and which of its ports, a cable leads to: LLDP frames as they are heard."""

import socket
import threading
import time
from collections.abc import Iterable

ETHERTYPE = 0x88CC
END, CHASSIS, PORT, PORT_DESCRIPTION, NAME, SYSTEM_DESCRIPTION = 0, 1, 2, 4, 5, 6
HEADER = 14
MAC_CHASSIS, MAC_PORT, ADDRESS_CHASSIS, ADDRESS_PORT = 4, 3, 5, 4


def parse_frame(frame: bytes) -> dict[str, str] | None:
    """A whole Ethernet frame; nothing when it is not LLDP, or breaks off before it says who sent it."""
    if len(frame) < HEADER or int.from_bytes(frame[12:14], "big") != ETHERTYPE:
        return None
    facts: dict[str, str] = {}
    at = HEADER
    while at + 2 <= len(frame):
        word = int.from_bytes(frame[at : at + 2], "big")
        kind, length = word >> 9, word & 0x1FF
        value = frame[at + 2 : at + 2 + length]
        if kind == END or len(value) < length:
            break
        facts.update(fact(kind, value))
        at += 2 + length
    return facts if "chassis" in facts and "port" in facts else None


def fact(kind: int, value: bytes) -> dict[str, str]:
    if kind == CHASSIS and value:
        return {"chassis": identifier(value, MAC_CHASSIS, ADDRESS_CHASSIS)}
    if kind == PORT and value:
        return {"port": identifier(value, MAC_PORT, ADDRESS_PORT)}
    names = {PORT_DESCRIPTION: "port_description", NAME: "system", SYSTEM_DESCRIPTION: "system_description"}
    return {names[kind]: readable(value)} if kind in names else {}


def identifier(value: bytes, mac: int, address: int) -> str:
    kind, rest = value[0], value[1:]
    if kind == mac and len(rest) == 6:
        return rest.hex(":")
    if kind == address and len(rest) == 5 and rest[0] == 1:
        return socket.inet_ntoa(rest[1:])
    return readable(rest)


def readable(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text).strip()[:200]


class Listener:
    """Hears what switches say on all interfaces while other work goes on."""

    def __init__(self) -> None:
        self.heard: dict[str, dict[str, str]] = {}
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._listen, name="lldp", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self, interfaces: Iterable[str], seconds: float) -> None:
        """Until every one of these has a neighbour, or this long since the start."""
        wanted = set(interfaces)
        while wanted - self.heard.keys() and time.monotonic() - self._begun < seconds:
            time.sleep(0.2)

    def _listen(self) -> None:
        try:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE)) as raw:
                while True:
                    frame, where = raw.recvfrom(2048)
                    if neighbour := parse_frame(frame):
                        self.heard[str(where[0])] = neighbour
        except OSError:
            # No neighbour is better than no deployment.
            return
