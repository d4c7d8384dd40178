"""Node sets: `gpu[01-16]`, `gpu01,gpu07`, `@a100`, `gpu[1-9]!gpu5`, in ClusterShell's syntax.

ClusterShell is asked for the arithmetic only. Its own configuration files and external group commands are
not consulted: what `@group` means here comes from the inventory alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headnode.errors import InvalidField

LIMIT = 100_000
Groups = Mapping[str, Sequence[str]]

BRACKETS = re.compile(r"\[([^\]]*)\]")
RANGE = re.compile(r"(\d+)-(\d+)")


def expand(text: str, *, groups: Groups | None = None, field: str = "node set", where: str = "") -> list[str]:
    """The names in a node set, in natural order; bad syntax is refused in one sentence."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError

    if not text.isprintable():
        raise InvalidField(field, text, "control characters are not allowed", where=where)
    if largest(text) > LIMIT:
        raise InvalidField(field, text, f"that is more than {LIMIT} names at once", where=where)
    try:
        return [str(name) for name in NodeSet(text, resolver=resolver(groups or {}))]
    except (NodeSetException, GroupResolverError, GroupSourceError, ValueError, IndexError) as error:
        why = " ".join(str(error).split())
        expected = f"use a form such as gpu01, gpu[01-16] or @group ({why})"
        raise InvalidField(field, text, expected, where=where) from None


def fold(names: Iterable[str]) -> str:
    """The shortest spelling: gpu01, gpu02, gpu03 → gpu[01-03]."""
    from ClusterShell.NodeSet import NodeSet

    return str(NodeSet.fromlist(list(names), resolver=resolver({})))


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts gpu2 before gpu10."""
    return tuple((int(part), part) if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


def largest(text: str) -> int:
    """An upper bound of how many names a text stands for, found without making them."""
    total = 1
    for inside in BRACKETS.findall(text):
        size = 0
        for part in inside.split(","):
            found = RANGE.match(part)
            size += max(1, int(found[2][:12]) - int(found[1][:12]) + 1) if found else 1
        total *= size
    return total


def resolver(groups: Groups) -> Any:
    from ClusterShell.NodeUtils import GroupResolver, GroupSource

    return GroupResolver(GroupSource("inventory", groups={name: ",".join(nodes) for name, nodes in groups.items()}))
