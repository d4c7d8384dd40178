"""What a lab consists of and where it keeps it: plain data, so that it can be written down and brought up again."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from headnode.errors import HeadnodeError, InvalidField
from headnode.lab.lab import ROOT
from headnode.lab.machine import Firmware
from headnode.lab.net import word
from headnode.paths import Paths

HOME = Path(os.environ.get("HEADNODE_LAB_HOME", "/var/lib/headnode-lab"))
DOMAIN = "lab.test"
PROVISION, MANAGEMENT, OFFICE = "10.20.0.1/16", "10.21.255.254/16", "192.168.7.1/24"
MOST_NODES = 64
LEAST_MEMORY = 1024
GIB = 1 << 30


@dataclass(frozen=True)
class Spec:
    """Every lab is in namespaces of its own, so all may use the same addresses."""

    name: str = "lab"
    # One for each node, in the nodes' order.
    firmware: tuple[Firmware, ...] = (Firmware.BIOS, Firmware.BIOS)
    memory_mib: int = 1536
    cpus: int = 2
    disks: int = 1
    # Of the people's door on the host's loopback address; the first free one from here.
    port: int = 8080
    images: bool = True

    def __post_init__(self) -> None:
        word(self.name, "name")
        if not 1 <= len(self.firmware) <= MOST_NODES:
            raise InvalidField("nodes", len(self.firmware), f"use 1 to {MOST_NODES}")
        if self.memory_mib < LEAST_MEMORY:
            raise InvalidField("memory", f"{self.memory_mib}M", "the ramdisk needs at least 1G")
        if self.disks not in (1, 2):
            raise InvalidField("disks", self.disks, "use 1 or 2")

    @property
    def nodes(self) -> "tuple[NodeSpec, ...]":
        return tuple(NodeSpec(number, firmware) for number, firmware in enumerate(self.firmware, start=1))

    @property
    def json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, path: Path) -> "Spec":
        try:
            said = json.loads(path.read_text())
            return cls(**{**said, "firmware": tuple(Firmware(one) for one in said["firmware"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise HeadnodeError(
                f"{path} cannot be read: {error}", hint="'headnode lab down' removes the lab"
            ) from error


@dataclass(frozen=True)
class NodeSpec:
    number: int
    firmware: Firmware

    @property
    def name(self) -> str:
        return f"gpu{self.number:02d}"

    @property
    def mac(self) -> str:
        return f"52:54:00:aa:00:{self.number:02x}"

    @property
    def bmc(self) -> str:
        return f"10.21.0.{10 + self.number}"

    @property
    def serial(self) -> str:
        return f"SN-{self.number:04d}"


@dataclass(frozen=True)
class Places:
    """A lab's own directory, which survives a reboot, and its sockets and process records, which need not."""

    home: Path
    runtime: Path

    @classmethod
    def of(cls, name: str) -> "Places":
        return cls(HOME / word(name, "name"), ROOT / name)

    @property
    def spec(self) -> Path:
        return self.home / "lab.json"

    @property
    def head(self) -> Paths:
        """The head node's root."""
        return Paths(self.home / "root")

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def daemon_log(self) -> Path:
        return self.logs / "lab.log"

    @property
    def daemon(self) -> Path:
        """Which process the lab's own is."""
        return self.home / "daemon.json"

    @property
    def bmc_password(self) -> Path:
        return self.head.config / "bmc.password"

    @property
    def ssh_key(self) -> Path:
        """Opens every node of the lab, as root."""
        return self.home / "ssh_key"

    @property
    def socket(self) -> Path:
        return self.runtime / "lab.sock"

    def node(self, name: str) -> Path:
        return self.home / "nodes" / name


def names() -> list[str]:
    """Labs that were brought up and not yet down, whether or not anything of them runs."""
    return sorted(path.name for path in HOME.iterdir() if (path / "lab.json").exists()) if HOME.is_dir() else []
