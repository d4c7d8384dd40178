"""Where things are in our own directory, and how it says that somebody is locked. Pure."""

from dataclasses import dataclass

from headnode.site import Site

# What the password policy takes for "locked by an administrator, until one unlocks it".
LOCKED, LOCKED_FOR_EVER = "pwdAccountLockedTime", "000001010000Z"


@dataclass(frozen=True)
class Tree:
    """The branches of a directory, by their distinguished names."""

    base: str

    @classmethod
    def of(cls, site: Site) -> "Tree":
        return cls(site.directory.base_dn or ",".join(f"dc={label}" for label in site.domain.split(".")))

    @property
    def people(self) -> str:
        return f"ou=people,{self.base}"

    @property
    def groups(self) -> str:
        return f"ou=groups,{self.base}"

    @property
    def sudoers(self) -> str:
        return f"ou=sudoers,{self.base}"

    @property
    def policies(self) -> str:
        return f"ou=policies,{self.base}"

    @property
    def services(self) -> str:
        return f"ou=services,{self.base}"

    @property
    def root(self) -> str:
        """What root on the head node is; there is no such entry, and no password for it."""
        return f"cn=headnode,{self.base}"

    @property
    def reader(self) -> str:
        return f"cn=reader,{self.services}"

    @property
    def sudo_rule(self) -> str:
        """The one rule that is Headnode's; others beside it are the site's own."""
        return f"cn=headnode,{self.sudoers}"

    # Names of accounts have no character that means anything in a distinguished name.

    def person(self, name: str) -> str:
        return f"uid={name},{self.people}"

    def group(self, name: str) -> str:
        return f"cn={name},{self.groups}"
