"""Where Headnode keeps things, all below one root so that labs and tests never touch the machine."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Paths:
    root: Path

    @classmethod
    def from_environment(cls) -> "Paths":
        return cls(Path(os.environ.get("HEADNODE_ROOT", "/")).absolute())

    @property
    def config(self) -> Path:
        return self.root / "etc/headnode"

    @property
    def site_file(self) -> Path:
        return self.config / "site.yaml"

    @property
    def secret_key(self) -> Path:
        return self.config / "secret.key"

    @property
    def ca(self) -> Path:
        return self.config / "ca"

    @property
    def state(self) -> Path:
        return self.root / "var/lib/headnode"

    @property
    def database(self) -> Path:
        return self.state / "inventory.db"

    @property
    def published(self) -> Path:
        """The live tree: what dnsmasq, nginx and the other programs read."""
        return self.state / "published"

    @property
    def runtime(self) -> Path:
        return self.root / "run/headnode"

    @property
    def logs(self) -> Path:
        return self.root / "var/log/headnode"
