"""BMC passwords: the ones every BMC of a make is shipped with, and new ones that are nobody else's."""

import secrets
import string
from typing import Final

# Printed in manuals, and the first thing anybody on the management network tries.
VENDOR_DEFAULTS: Final = frozenset(
    {
        ("ADMIN", "ADMIN"),
        ("admin", "admin"),
        ("admin", "password"),
        ("admin", "Administrator"),
        ("admin", "cmb9.admin"),
        ("admin", "insyde"),
        ("Administrator", "Admin@9000"),
        ("Administrator", "password"),
        ("root", "0penBmc"),
        ("root", "calvin"),
        ("root", "changeme"),
        ("root", "root"),
        ("root", "superuser"),
        ("USERID", "PASSW0RD"),
    }
)
# Without look-alikes and without what shells, URLs and some BMCs' web forms stumble over.
LETTERS: Final = "abcdefghijkmnpqrstuvwxyz"
CAPITALS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ"
DIGITS: Final = "23456789"
MARKS: Final = "-_.+"
# Many BMCs cut longer ones without a word.
LENGTH: Final = 16


def is_vendor_default(user: str, password: str) -> bool:
    """Also when it is empty or the user's own name: those are defaults of somebody."""
    return not password or password.lower() == user.lower() or (user, password) in VENDOR_DEFAULTS


def new_password() -> str:
    """Random, with one of each kind, as BMCs with a password policy want it."""
    kinds = (LETTERS, CAPITALS, DIGITS, MARKS)
    chosen = [secrets.choice(kind) for kind in kinds]
    chosen += [secrets.choice("".join(kinds)) for _ in range(LENGTH - len(kinds))]
    secrets.SystemRandom().shuffle(chosen)
    # A leading mark reads as an option on command lines.
    while chosen[0] not in string.ascii_letters:
        secrets.SystemRandom().shuffle(chosen)
    return "".join(chosen)
