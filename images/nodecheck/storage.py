"""What the kernel says of mounts, swap and RAID sets. Pure."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mount:
    kind: str
    writable: bool


@dataclass(frozen=True)
class RaidSet:
    name: str
    active: bool
    # Members there should be, and those that work; nothing when that was cut off.
    members: int | None = None
    working: int | None = None

    @property
    def whole(self) -> bool:
        return self.active and self.members is not None and self.members == self.working


def parse_mounts(text: str) -> dict[str, Mount]:
    """/proc/self/mounts, by path; of two at one place the later one hides the other. A line that is cut off is none."""
    found: dict[str, Mount] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 6:
            path = words[1].replace("\\040", " ")
            found[path] = Mount(words[2], "rw" in words[3].split(","))
    return found


def parse_swaps(text: str) -> int:
    """/proc/swaps: how many are in use."""
    return sum(len(line.split()) == 5 for line in text.splitlines()[1:])


SET = re.compile(r"^(md\S*) : (active|inactive)")
MEMBERS = re.compile(r"\[(\d+)/(\d+)\] \[[U_]+\]")


def parse_mdstat(text: str) -> list[RaidSet]:
    found: list[RaidSet] = []
    for line in text.splitlines():
        if head := SET.match(line):
            found.append(RaidSet(head[1], head[2] == "active"))
        elif found and (members := MEMBERS.search(line)):
            last = found.pop()
            found.append(RaidSet(last.name, last.active, int(members[1]), int(members[2])))
    return found
