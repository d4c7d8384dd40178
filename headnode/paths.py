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
    def tftp(self) -> Path:
        """First-stage boot programs, and links to the GRUB scripts that can only be read over TFTP."""
        return self.state / "boot/tftp"

    @property
    def grub(self) -> Path:
        """Small boot programs of our own that are fetched over HTTP."""
        return self.state / "boot/grub"

    @property
    def mirror(self) -> Path:
        """Packages that were carried here, a directory for each import."""
        return self.state / "mirror"

    @property
    def runtime(self) -> Path:
        return self.root / "run/headnode"

    @property
    def control_socket(self) -> Path:
        return self.runtime / "control.sock"

    @property
    def bmc_socket(self) -> Path:
        return self.runtime / "bmc.sock"

    @property
    def directory(self) -> Path:
        """slapd's database and certificate."""
        return self.state / "directory"

    @property
    def ldap_socket(self) -> Path:
        return self.runtime / "slapd/ldapi"

    @property
    def consoles(self) -> Path:
        """Console recordings, a directory for each node."""
        return self.state / "consoles"

    @property
    def sensors(self) -> Path:
        """Sensor histories, a directory for each node."""
        return self.state / "sensors"

    @property
    def logs(self) -> Path:
        return self.root / "var/log/headnode"

    def below_root(self, path: str) -> Path:
        """A directory that site.yaml names, such as one that is exported; a lab has its own."""
        return self.root / path.lstrip("/")

    # A lab's directories are often readable by root alone, and a lab has no one to protect its programs from.

    @property
    def dnsmasq_user(self) -> str:
        return "dnsmasq" if self.root == Path("/") else "root"

    @property
    def nginx_user(self) -> str:
        return "www-data" if self.root == Path("/") else "root"

    @property
    def slapd_user(self) -> str:
        return "openldap" if self.root == Path("/") else "root"

    @property
    def chrony_user(self) -> str:
        return "_chrony" if self.root == Path("/") else "root"

    @property
    def package_cache_user(self) -> str:
        return "apt-cacher-ng" if self.root == Path("/") else "root"
