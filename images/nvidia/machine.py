"""What the solver looks at: GPUs and switches from a node's facts, and what is wanted of them. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headnode import fields
from headnode.errors import InvalidField, InvalidInput
from images.nvidia.rules import NVIDIA, Architecture, Device, Names, Open, rules

GEOMETRY = re.compile(r"[1-7]g\.[0-9]+gb", re.ASCII)


class StackRefused(InvalidInput):
    """Two facts stand against each other; nothing was installed."""


@dataclass(frozen=True)
class Gpu:
    address: str
    device: str
    chip: str
    name: str
    architecture: Architecture
    bars_assigned: bool = True

    @property
    def listed(self) -> Device | None:
        return rules().devices.get(self.device)

    @property
    def first(self) -> int:
        return max(self.architecture.first, (self.listed.first or 0) if self.listed else 0)

    @property
    def open(self) -> Open:
        return (self.listed.open if self.listed else None) or self.architecture.open

    @property
    def consumer(self) -> bool:
        return any(word in self.name for word in rules().consumer)

    def __str__(self) -> str:
        return self.name if self.name != self.chip else f"{self.chip} ({self.device})"


@dataclass(frozen=True)
class Machine:
    """GPUs of one node, or of all nodes that one image is for."""

    gpus: tuple[Gpu, ...] = ()
    # Generations of NVLink whose switches it has.
    fabrics: frozenset[int] = frozenset()
    secure_boot: bool = False

    @property
    def kinds(self) -> list[Gpu]:
        """One GPU of each kind, in a fixed order."""
        return [found for _, found in sorted({gpu.device: gpu for gpu in self.gpus}.items())]

    def counted(self) -> str:
        numbers = [(sum(gpu.device == kind.device for gpu in self.gpus), kind) for kind in self.kinds]
        return ", ".join(f"{number} x {kind}" for number, kind in numbers) or "no NVIDIA GPU"


@dataclass(frozen=True)
class Wanted:
    """What the settings of a node ask for."""

    os: str
    release: str
    machine: str
    branch: int | None = None
    # An exact release of the driver, where one was named.
    version: str | None = None
    modules: str = "auto"
    source: str = "distro"
    mig: tuple[str, ...] = ()
    rdma: str = "none"
    docker: str = "none"
    enroot: bool = False
    none: bool = False
    # Archives that the site names beyond the distribution's.
    archives: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Mapping[str, Any], archives: Iterable[str] = ()) -> "Wanted":
        branch, version, flavour = parse_branch(str(settings.get("nvidia_branch") or "none"))
        modules = str(settings.get("nvidia_modules") or "auto")
        if flavour and modules not in ("auto", flavour):
            raise StackRefused(
                f"nvidia_branch is '{settings['nvidia_branch']}' and nvidia_modules is '{modules}'; say one of the two"
            )
        return cls(
            os=str(settings["os"]),
            release=str(settings["release"]),
            machine=str(settings["architecture"]),
            branch=branch,
            version=version,
            modules=flavour or modules,
            source=str(settings.get("nvidia_source") or "distro"),
            mig=parse_geometry(tuple(settings.get("nvidia_mig") or ())),
            rdma=str(settings.get("rdma") or "none"),
            docker=str(settings.get("docker") or "none"),
            enroot=bool(settings.get("enroot")),
            none=str(settings.get("nvidia_branch") or "none") == "none",
            archives=frozenset(archives),
        )

    @property
    def asked(self) -> str:
        """The branch as it was asked for, for sentences."""
        flavour = f"-{self.modules}" if self.modules != "auto" else ""
        return f"{self.version or self.branch}{flavour}"


def parse_branch(text: str) -> tuple[int | None, str | None, str | None]:
    """none or auto → nothing; 580, 580-open, 580.95.05 → its number, exact release and modules."""
    if text in ("none", "auto"):
        return None, None, None
    found = fields.DRIVER_BRANCH.fullmatch(text)
    if not found:
        raise InvalidField("nvidia_branch", text, f"use {fields.DRIVER_BRANCHES}")
    version = f"{found['number']}{found['rest']}" if found["rest"] else None
    return int(found["number"]), version, found["flavour"]


def parse_geometry(given: Sequence[str]) -> tuple[str, ...]:
    for profile in given:
        if not GEOMETRY.fullmatch(profile):
            raise InvalidField("nvidia_mig", profile, "use MIG profiles, such as 3g.40gb 3g.40gb")
    return tuple(given)


def machine_of(facts: Sequence[Mapping[str, Any]], names: Names) -> Machine:
    """Of one node's facts, or of several that must all be served by the same stack."""
    gpus = tuple(gpu_of(device, names) for one in facts for device in one.get("gpus") or () if is_nvidia(device))
    listed = [rules().devices.get(str(s.get("device"))) for one in facts for s in one.get("nvswitches") or ()]
    # A switch nobody knows is still a switch; its generation is that of the GPUs beside it.
    switches = {found.switch if found and found.switch else 4 for found in listed}
    behind = {gpu.listed.fabric for gpu in gpus if gpu.listed and gpu.listed.fabric}
    return Machine(gpus, frozenset(switches | behind), any(bool(one.get("secure_boot")) for one in facts))


def is_nvidia(device: Mapping[str, Any]) -> bool:
    return device.get("vendor") == NVIDIA


def gpu_of(device: Mapping[str, Any], names: Names) -> Gpu:
    number, address = str(device.get("device")), str(device.get("address"))
    found = names.of(number)
    architecture = rules().architecture(found[0]) if found else None
    if found is None or architecture is None:
        chip = found[0] if found else "not in pci.ids"
        raise StackRefused(
            f"the GPU {NVIDIA}:{number} at {address} is of no known architecture ({chip})",
            hint="update the package pci.ids on the head node, or add the device to images/nvidia/rules.yaml",
        )
    return Gpu(address, number, found[0], found[1], architecture, bool(device.get("bars_assigned", True)))
