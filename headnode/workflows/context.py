"""What every workflow needs: the place, the site, the inventory, and who is asking."""

import getpass
import hashlib
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from headnode import __version__
from headnode.errors import HeadnodeError
from headnode.paths import Paths

# The site and the inventory take longer to import than some commands take in all: only when they are asked for.
if TYPE_CHECKING:
    from headnode.inventory import Inventory
    from headnode.site import Site


@dataclass(frozen=True)
class Context:
    paths: Paths
    actor: str
    cause: str

    @cached_property
    def site_text(self) -> bytes:
        from headnode import sitetext

        return sitetext.read(self.paths.site_file)

    @cached_property
    def site(self) -> "Site":
        from headnode import sitefile

        return sitefile.parse(self.site_text, str(self.paths.site_file))

    def refresh(self) -> None:
        """Take in what was written to site.yaml since it was read.

        A file that cannot be used, half-saved perhaps, leaves the one that was read in force: it must not stop what is
        under way, and whoever edited it is told by the next command.
        """
        from headnode import sitefile, sitetext
        from headnode.workflows.fit import misfits

        try:
            text = sitetext.read(self.paths.site_file)
            if text == self.site_text:
                return
            newer = sitefile.parse(text, str(self.paths.site_file))
        except HeadnodeError:
            return
        if not misfits(newer, self.inventory.nodes()):
            self.__dict__.update(site_text=text, site=newer)

    @cached_property
    def inventory(self) -> "Inventory":
        from headnode.inventory import Inventory

        return Inventory.open(self.site.database.url, self.paths.database)

    def only_looking(self) -> "Context":
        """Opens the inventory without understanding all of site.yaml, where that says nothing of a database.

        For commands that list what is there: checking the site takes a third of their time, and one that is being
        edited is no reason not to list. Whoever changes anything needs a site that can be published.
        """
        from headnode import sitetext
        from headnode.inventory import Inventory

        if not sitetext.may_name_database(sitetext.read(self.paths.site_file)):
            self.__dict__["inventory"] = Inventory.open(None, self.paths.database)
        return self

    @property
    def site_digest(self) -> str:
        """Changes whenever anything but a node could change what is rendered."""
        import templates  # here, because most commands render nothing

        digest = hashlib.sha256(__version__.encode() + b"\0" + str(self.paths.site_file).encode() + b"\0")
        # The very text that was parsed: the file may have been edited since.
        digest.update(self.site_text + b"\0")
        for path in sorted(Path(templates.HERE).rglob("*.j2")):
            digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()

    def close(self) -> None:
        """Let go of the database, if it was opened at all."""
        if "inventory" in self.__dict__:
            self.inventory.close()

    def acting(self, actor: str, cause: str) -> "Context":
        """The same place for somebody else: what is read and open already is shared."""
        made = replace(self, actor=actor, cause=cause)
        made.__dict__.update(site_text=self.site_text, site=self.site, inventory=self.inventory)
        return made

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
