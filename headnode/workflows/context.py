"""What every workflow needs: the place, the site, the inventory, and who is asking."""

import getpass
import hashlib
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import templates
from headnode import __version__, sitefile
from headnode.inventory import Inventory
from headnode.paths import Paths
from headnode.site import Site


@dataclass(frozen=True)
class Context:
    paths: Paths
    actor: str
    cause: str

    @cached_property
    def site(self) -> Site:
        return sitefile.load(self.paths.site_file)

    @cached_property
    def inventory(self) -> Inventory:
        return Inventory.open(self.site.database.url, self.paths.database)

    @property
    def site_digest(self) -> str:
        """Changes whenever anything but a node could change what is rendered."""
        digest = hashlib.sha256(__version__.encode())
        for path in [self.paths.site_file, *sorted(Path(templates.HERE).rglob("*.j2"))]:
            digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()

    def close(self) -> None:
        """Let go of the database, if it was opened at all."""
        if "inventory" in self.__dict__:
            self.inventory.close()

    def because(self, cause: str) -> "Context":
        return replace(self, cause=cause)


def who() -> str:
    """The person at the keyboard: behind sudo, the one who called it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    caller = os.environ.get("SUDO_USER", "")
    name = f"{caller} (as {user})" if caller and caller != user else user
    return "".join(c for c in name if c.isprintable())[:200]
