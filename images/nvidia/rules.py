"""rules.yaml as typed data, and the names of devices from pci.ids."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

RULES = Path(__file__).parent / "rules.yaml"
# Debian's package pci.ids; a head node without it knows what rules.yaml lists.
PCI_IDS = Path("/usr/share/misc/pci.ids")
NVIDIA = "10de"
DEVICE = re.compile(r"\t(?P<id>[0-9a-f]{4})\s+(?P<chip>[A-Z]{2}[0-9A-Z]+)\s*(\[(?P<name>[^]]+)\])?", re.ASCII)

Open = Literal["never", "allowed", "needed"]


class Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Frozen):
    title: str
    url: str
    read: date | None = None


class Architecture(Frozen):
    name: str
    chips: tuple[str, ...]
    first: int
    last: int | None = None
    open: Open
    sources: tuple[str, ...]


class Device(Frozen):
    chip: str
    name: str
    first: int | None = None
    open: Open | None = None
    machine: str | None = None
    fabric: int | None = None
    switch: int | None = None
    imex: bool = False
    sources: tuple[str, ...] = ()


class Slicing(Frozen):
    slices: int
    profiles: dict[str, int]
    devices: tuple[str, ...] = ()
    sources: tuple[str, ...]


class Branch(Frozen):
    version: str
    machines: tuple[str, ...]
    open: tuple[str, ...] = ()
    proprietary: tuple[str, ...] = ()
    common: tuple[str, ...]
    fabric: tuple[str, ...] = ()
    fabric5: tuple[str, ...] = ()
    imex: tuple[str, ...] = ()


class Archive(Frozen):
    os: str
    release: str
    source: Literal["distro", "nvidia"]
    names: Literal["archive", "documentation"] = "documentation"
    components: tuple[str, ...]
    auto: tuple[int, ...]
    headers: str | None = None
    branches: dict[int, Branch]
    subnet_manager: tuple[str, ...] = ()
    dcgm: tuple[str, ...] = ()
    toolkit: tuple[str, ...] = ()
    sources: tuple[str, ...]

    @property
    def title(self) -> str:
        own = {"debian": "Debian's", "ubuntu": "Ubuntu's"}[self.os]
        return "NVIDIA's own archive" if self.source == "nvidia" else f"{own} archive for {self.release}"


class Bundle(Frozen):
    packages: tuple[str, ...]
    sources: tuple[str, ...]


class Containers(Frozen):
    docker: dict[str, Bundle]
    docker_ce: Bundle
    enroot: Bundle
    enroot_needs: Bundle
    pyxis: Bundle


class Rules(Frozen):
    sources: dict[str, Source]
    architectures: tuple[Architecture, ...]
    open_since: int
    open_preferred: int
    devices: dict[str, Device]
    consumer: tuple[str, ...]
    mig: dict[str, Slicing]
    mig_small: Slicing
    archives: tuple[Archive, ...]
    containers: Containers

    def architecture(self, chip: str) -> Architecture | None:
        """The one whose letters the chip's name begins with; the longest wins."""
        fitting = [(len(start), one) for one in self.architectures for start in one.chips if chip.startswith(start)]
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else None

    def archive(self, os: str, release: str, source: str) -> Archive | None:
        return next((a for a in self.archives if (a.os, a.release, a.source) == (os, release, source)), None)

    def slicing(self, device: str, chip: str) -> Slicing | None:
        if device in self.mig_small.devices:
            return self.mig_small
        return next((found for name, found in self.mig.items() if chip.startswith(name)), None)


@cache
def rules() -> Rules:
    return Rules.model_validate(yaml.safe_load(RULES.read_text()))


@dataclass(frozen=True)
class Names:
    """Chip and product of every NVIDIA device: pci.ids, and what rules.yaml adds to it."""

    known: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def of(self, device: str) -> tuple[str, str] | None:
        listed = rules().devices.get(device)
        return (listed.chip, listed.name) if listed else self.known.get(device)


def parse_pci_ids(text: str) -> Names:
    """The devices of vendor 10de; lines without a code name of a chip are something else's."""
    block = re.search(rf"^{NVIDIA} .*\n((?:[\t#].*\n?)*)", text, re.MULTILINE)
    found = {}
    for line in block[1].splitlines() if block else ():
        if match := DEVICE.match(line):
            found[match["id"]] = (match["chip"], match["name"] or match["chip"])
    return Names(found)


@cache
def names(path: Path = PCI_IDS) -> Names:
    try:
        return parse_pci_ids(path.read_text(errors="replace"))
    except OSError:
        return Names()
