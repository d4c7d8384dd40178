"""Hardware that asks for an address on the provision network and is nobody's node."""

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headnode.model import Sighting
from headnode.workflows.context import Context

if TYPE_CHECKING:
    from pxe.dhcp import Packet

# A machine that asks again and again is written down this often.
PAUSE = 5.0
# A machine that asks after this long has been started again.
A_BOOT = 120.0
# Made-up hardware addresses must not fill the disk: so many are written at a time, and so many are kept.
MOST_AT_ONCE = 100
MOST_KEPT = 1000
WRITE_EVERY = 0.5
LONGEST_ID = 200


class Watcher:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.written: dict[str, float] = {}
        self.waiting: dict[str, Sighting] = {}
        # What the firmware of a node said last, and when: once for each boot is enough.
        self.architectures: dict[str, tuple[str | None, float]] = {}

    def run(self, stop: threading.Event) -> None:
        from pxe.dhcp import Op
        from pxe.wire import Wire

        with Wire(str(self.context.site.provision.interface), Op.REQUEST) as wire:
            while not stop.is_set():
                write_at = time.monotonic() + WRITE_EVERY
                while heard := wire.receive(write_at):
                    self.hear(heard[0])
                self.write()

    def hear(self, packet: "Packet") -> None:
        now = time.monotonic()
        if packet.mac in self.waiting or now - self.written.get(packet.mac, -PAUSE) < PAUSE:
            return
        if len(self.waiting) < MOST_AT_ONCE:
            self.waiting[packet.mac] = sighting(packet, datetime.now(UTC))

    def write(self) -> None:
        if not self.waiting:
            return
        heard, self.waiting = self.waiting, {}
        if len(self.written) > 10 * MOST_KEPT:
            self.written.clear()
        self.written.update(dict.fromkeys(heard, time.monotonic()))
        known, _ = self.context.inventory.owners()
        self.note_architectures([(known[mac], found) for mac, found in heard.items() if mac in known])
        unknown = [found for mac, found in heard.items() if mac not in known]
        if not unknown:
            return
        with self.context.inventory.change("boot plane", "seen on the provision network") as change:
            change.record_seen(unknown)
        kept = self.context.inventory.seen()
        if len(kept) > MOST_KEPT:
            with self.context.inventory.change("boot plane", "the longest unseen are forgotten") as change:
                change.forget_seen([old.mac for old in kept[:-MOST_KEPT]])

    def note_architectures(self, heard: list[tuple[str, Sighting]]) -> None:
        """Which firmware asks: a boot program for another kind of machine is a common reason for silence."""
        now = time.monotonic()
        told = {node: said for node, said in self.architectures.items() if now - said[1] < A_BOOT}
        changed = [(node, s) for node, s in heard if s.architecture not in (None, told.get(node, ("", 0))[0])]
        self.architectures = {**told, **{node: (seen.architecture, now) for node, seen in changed}}
        if not changed:
            return
        with self.context.inventory.change("boot plane", "seen on the provision network") as change:
            for node, seen in changed:
                message = f"its firmware is {seen.architecture}"
                change.record("dhcp.architecture", message, node=node, data={"architecture": seen.architecture})


def sighting(packet: "Packet", at: datetime) -> Sighting:
    """Only what cannot harm a terminal or a database: a known word, and hexadecimal digits of bounded length."""
    architecture = packet.architecture.name.lower() if packet.architecture is not None else None
    client_id = packet.client_id.hex()[:LONGEST_ID] or None
    return Sighting(packet.mac, at, at, architecture, client_id)
