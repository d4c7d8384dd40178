"""What may stand in a field. Names, MACs and texts are checked here, once, at the door.

Values end up in DHCP entries, boot scripts, shell files and web pages, so the rule is narrow on purpose:
what no real name needs (control characters, quotes, template braces) is refused rather than escaped.
"""

import ipaddress
import re

from headnode.errors import InvalidField

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:@-]{0,63}", re.ASCII)
INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", re.ASCII)
MAC_SHAPES = re.compile(
    r"([0-9a-f]{2}(:[0-9a-f]{2}){5})|([0-9a-f]{2}(-[0-9a-f]{2}){5})|([0-9a-f]{4}(\.[0-9a-f]{4}){2})|([0-9a-f]{12})",
    re.ASCII | re.IGNORECASE,
)
# What every Linux, sssd, sudo and NFS take as a login; capitals are left out because directories ignore case.
ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
FORBIDDEN = re.compile(r"""["'`\\]|\$\{|\$\(|\{\{|\{%|\{#""")
# A driver's branch, and its release and kind of modules where they are said too.
DRIVER_BRANCH = re.compile(
    r"(?P<number>[1-9][0-9]{2})(?P<rest>(\.[0-9]+)+)?(-(?P<flavour>open|proprietary))?", re.ASCII
)
DRIVER_BRANCHES = "none, auto, a branch such as 580 or 580-open, or a release such as 580.95.05"
# An image, and its version where one is meant.
IMAGE_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)
IMAGE = re.compile(rf"(?P<name>{IMAGE_NAME.pattern})(@(?P<version>[1-9][0-9]{{0,8}}))?", re.ASCII)
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
# One address, with a host or domain behind the @ whose labels begin and end with a letter or a digit.
EMAIL = re.compile(
    r"[A-Za-z0-9!#$%&*+/=?^_{|}~-]+(\.[A-Za-z0-9!#$%&*+/=?^_{|}~-]+)*"
    r"@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*",
    re.ASCII,
)
# No disk, clock or sensor has more; beyond it, and for infinities, arithmetic itself fails.
MOST_MEASURED = 1e18
RESERVED_NAMES = frozenset({"head", "localhost", "bmc"})


def host_name(value: str, *, field: str = "name", where: str = "") -> str:
    """An RFC 1123 label in lower case: what DNS, DHCP, LDAP and Slurm all accept."""
    if not LABEL.fullmatch(value):
        expected = "use 1 to 63 lower-case letters, digits and inner hyphens, such as gpu01"
        raise InvalidField(field, value, expected, where=where)
    if value in RESERVED_NAMES:
        raise InvalidField(field, value, "that name is the head node's own; choose another", where=where)
    if value.isdigit():
        raise InvalidField(field, value, "a name needs at least one letter, such as gpu01", where=where)
    return value


def domain_name(value: str, *, field: str = "domain", where: str = "") -> str:
    labels = value.split(".")
    wellformed = len(labels) > 1 and all(LABEL.fullmatch(label) for label in labels)
    if len(value) > 253 or not wellformed or labels[-1].isdigit():
        expected = "use a DNS domain in lower case, such as cluster.example.org"
        raise InvalidField(field, value, expected, where=where)
    return value


def mac_address(value: str, *, field: str = "mac", where: str = "") -> str:
    """A unicast hardware address, returned as aa:bb:cc:dd:ee:ff; other common spellings are understood."""
    if not MAC_SHAPES.fullmatch(value):
        raise InvalidField(field, value, "use six hexadecimal pairs, such as 52:54:00:aa:00:01", where=where)
    digits = re.sub(r"[:.-]", "", value).lower()
    if digits == "0" * 12:
        raise InvalidField(field, value, "the all-zero address belongs to no machine", where=where)
    if int(digits[:2], 16) & 1:
        raise InvalidField(field, value, "that is a multicast address; a machine's own is even in its first byte",
                           where=where)  # fmt: skip
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def ip_address(value: str, *, field: str = "address", where: str = "") -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise InvalidField(field, value, "use an IPv4 address, such as 10.20.1.1", where=where) from None


def plain_text(value: str, *, field: str, where: str = "", limit: int = 200) -> str:
    """Free text that is inert in every file it may be written to."""
    if len(value) > limit:
        raise InvalidField(field, value, f"use at most {limit} characters", where=where)
    if not value.isprintable():
        raise InvalidField(field, value, "control characters and line breaks are not allowed", where=where)
    if found := FORBIDDEN.search(value):
        raise InvalidField(field, value, f"{found.group()!r} is not allowed here", where=where)
    return value


def plain_label(value: str, *, field: str = "name", where: str = "") -> str:
    """A word: the name of a profile, rack, group, layout or package."""
    if not WORD.fullmatch(value):
        expected = "use up to 64 letters, digits, and . _ + : @ - after the first"
        raise InvalidField(field, value, expected, where=where)
    return value


def account_name(value: str, *, field: str = "name", where: str = "") -> str:
    """A login name, or the name of a group of people."""
    if not ACCOUNT.fullmatch(value):
        expected = "use up to 32 lower-case letters, digits, _ and -, beginning with a letter, such as alice"
        raise InvalidField(field, value, expected, where=where)
    return value


def is_email(value: str) -> bool:
    return bool(EMAIL.fullmatch(value)) and len(value) <= 254 and len(value.partition("@")[0]) <= 64


def email_address(value: str, *, field: str = "email", where: str = "") -> str:
    if not is_email(value):
        raise InvalidField(field, value, "use one address such as alice@example.org", where=where)
    return value


def interface_name(value: str, *, field: str = "interface", where: str = "") -> str:
    """What the Linux kernel takes as an interface's name, less what no configuration file wants to see."""
    if not INTERFACE.fullmatch(value):
        expected = "use the name of a network interface, such as eth1 (at most 15 letters, digits and . _ -)"
        raise InvalidField(field, value, expected, where=where)
    return value


def image_name(value: str, *, field: str = "image") -> str:
    """A directory, a part of a web address and a line of a log are called so."""
    if not IMAGE_NAME.fullmatch(value):
        raise InvalidField(field, value, "use lower-case letters, digits, dots and hyphens, such as gpu")
    return value


def image_reference(value: str, *, field: str = "image") -> str:
    if not IMAGE.fullmatch(value):
        raise InvalidField(field, value, "use a name, or a name and a version, such as gpu or gpu@3")
    return value


def number(value: str | int, *, field: str, low: int, high: int, where: str = "") -> int:
    text = str(value)
    found = int(text) if WHOLE_NUMBER.fullmatch(text) else low - 1
    if not low <= found <= high:
        raise InvalidField(field, value, f"use a whole number from {low} to {high}", where=where)
    return found


def measurement(value: object) -> int | float | None:
    """A number that a machine sent, or nothing: what is no number, not finite or absurd says nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -MOST_MEASURED < value < MOST_MEASURED else None
