"""Marks that say whose a partition is.

Every partition we make has a GPT identifier computed from cluster, node, purpose and its own label. So it can be
checked with nothing but the partition itself: a disk that came from another node, or a partition that somebody else
happened to label `root`, does not carry the right number, and a volume of an older layout of this node still does. A
mark in the label would be copied by anyone who copies a label, and a mark on the disk as a whole says nothing about a
partition that somebody added later.

Purposes: `partition` is ours to format; `fresh` is a kept volume whose file system is still being made; `keep` is a
kept volume that is ready. The step from fresh to keep is one write after mkfs, so a power cut never leaves a half-made
file system that looks like somebody's data.
"""

from dataclasses import dataclass
from uuid import UUID, uuid5

from images.disks import Held

NAMESPACE = UUID("a2bfc1cb-4f0c-5bb0-9c3c-6d3f3a2d9a11")


@dataclass(frozen=True)
class Owner:
    cluster: str
    node: str

    def id(self, purpose: str, name: str) -> str:
        return str(uuid5(NAMESPACE, f"{self.cluster}/{self.node}/{purpose}/{name}"))

    def fat_id(self, name: str) -> str:
        """FAT has room for eight digits only."""
        return self.id("fs", name)[:8].upper()

    def purpose(self, held: Held) -> str | None:
        """What a partition was made for by us for this node, or None when it is not ours."""
        for purpose in ("partition", "fresh", "keep"):
            if held.partuuid and held.partuuid == self.id(purpose, held.partlabel):
                return purpose
        return None
