"""What may be said of a person or a group. Pure.

Names of accounts become file names, owners and parts of distinguished names, so they are narrow. A full name is free
text: it is only ever a value, and means nothing to anybody who reads it.
"""

import base64
import binascii
import re
from dataclasses import dataclass

from headnode import fields
from headnode.directory.entries import SHELL, Person
from headnode.errors import InvalidField

SHELL_PATH = re.compile(r"/[A-Za-z0-9._/+-]{1,200}", re.ASCII)
KEY_TYPES = re.compile(
    r"ssh-(rsa|ed25519)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com"
)
MOST_KEYS = 100
# Accounts and groups that systems have of their own: one of these in the directory would be taken for the other.
SYSTEM_NAMES = frozenset(
    """root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody nogroup adm tty
    disk dialout fax voice cdrom floppy tape sudo audio dip operator src shadow utmp video sasl plugdev staff users
    input sgx kvm render crontab messagebus sshd systemd-network systemd-resolve systemd-timesync systemd-journal
    systemd-coredump polkitd tss sssd statd _apt _chrony _ssh _rpc avahi docker lxd netdev ssl-cert bluetooth landscape
    syslog uuidd tcpdump rdma nvidia-persistenced slurm munge prometheus openldap dnsmasq apt-cacher-ng postgres mysql
    ubuntu debian""".split()  # noqa: SIM905 - a list of words reads better as words
)


@dataclass(frozen=True)
class Wish:
    """A person as somebody asks for them."""

    name: str
    full_name: str = ""
    email: str = ""
    ssh_keys: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    shell: str = SHELL
    number: int | None = None

    @classmethod
    def of(cls, person: Person) -> "Wish":
        return cls(person.name, person.full_name, person.email, person.ssh_keys, person.groups, person.shell,
                   person.number)  # fmt: skip

    def is_of(self, person: Person) -> bool:
        """Whether this is how they are: what is asked for again is finished, not refused."""
        same = all(getattr(self, key) == getattr(person, key) for key in ("email", "ssh_keys", "shell"))
        named = person.full_name == (self.full_name or self.name) and self.number in (None, person.number)
        return same and named and {*person.groups} <= {*self.groups}

    def person(self, number: int) -> Person:
        return Person(self.name, number, self.full_name or self.name, self.email, self.ssh_keys, self.shell,
                      f"/home/{self.name}", self.groups, gid=number)  # fmt: skip


def judge(wish: Wish, *, where: str = "") -> None:
    """Raises InvalidField for the first thing that is wrong."""
    account(wish.name, where=where)
    plain(wish.full_name, field="full name", where=where)
    if wish.email:
        fields.email_address(wish.email, where=where)
    if not SHELL_PATH.fullmatch(wish.shell) or ".." in wish.shell:
        raise InvalidField("shell", wish.shell, "use the path of a program, such as /bin/bash", where=where)
    if len(wish.ssh_keys) > MOST_KEYS:
        raise InvalidField("ssh key", f"{len(wish.ssh_keys)} keys", f"use at most {MOST_KEYS}", where=where)
    for key in wish.ssh_keys:
        public_key(key, where=where)
    for group in wish.groups:
        group_name(group, field="group", where=where)


def account(name: str, *, field: str = "name", where: str = "") -> str:
    fields.account_name(name, field=field, where=where)
    if name in SYSTEM_NAMES or name.startswith("systemd-"):
        expected = "systems have an account or group of that name themselves; choose another"
        raise InvalidField(field, name, expected, where=where)
    return name


def group_name(name: str, *, field: str = "name", where: str = "") -> str:
    return account(name, field=field, where=where)


def plain(value: str, *, field: str, where: str = "") -> str:
    """Any text that fits on a line."""
    if len(value) > 200:
        raise InvalidField(field, value, "use at most 200 characters", where=where)
    if not value.isprintable() or value != value.strip():
        expected = "control characters, line breaks and blanks at its ends are not allowed"
        raise InvalidField(field, value, expected, where=where)
    return value


def public_key(text: str, *, where: str = "") -> str:
    """One OpenSSH public key: its kind, its body, and a comment; never options, which could run programs."""
    kind, _, rest = text.partition(" ")
    body, _, comment = rest.partition(" ")
    expected = "use one line of a .pub file, such as ssh-ed25519 AAAA… alice@laptop"
    if "PRIVATE KEY" in text:
        # The text is not repeated.
        raise InvalidField("ssh key", "a private key", f"keep that to yourself; {expected}", where=where)
    if not KEY_TYPES.fullmatch(kind) or not text.isprintable() or len(text) > 8192 or len(comment) > 200:
        raise InvalidField("ssh key", text, expected, where=where)
    try:
        blob = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        blob = b""
    length = int.from_bytes(blob[:4], "big")
    if length > 64 or blob[4 : 4 + length] != kind.encode() or len(blob) < 32:
        raise InvalidField("ssh key", text, f"its body is damaged; {expected}", where=where)
    return text
