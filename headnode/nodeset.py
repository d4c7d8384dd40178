"""Node sets: `gpu[01-16]`, `gpu01,gpu07`, `@a100`, `gpu[1-9]!gpu5`, in ClusterShell's syntax.

ClusterShell is asked for the arithmetic only. Its own configuration files and external group commands are
not consulted: what `@group` means here comes from the inventory alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headnode.errors import InvalidField, shown

LIMIT = 100_000
Groups = Mapping[str, Sequence[str]]

BRACKETS = re.compile(r"\[([^\]]*)\]")
BETWEEN_SETS = re.compile(r"[,!&^](?![^\[]*\])")
RANGE = re.compile(r"0*(\d+)-0*(\d+)")


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


def expand_in_order(text: str, *, field: str = "node set", where: str = "") -> list[str]:
    """The names in the order they were written, for lists that belong together value by value."""
    if set("!&^") & set(text):
        return expand(text, field=field, where=where)
    return [
        name
        for part in BETWEEN_SETS.split(text)
        for single in single_ranges(part)
        for name in expand(single, field=field, where=where)
    ]


def single_ranges(part: str) -> list[str]:
    """gpu[3,1-2] → gpu[3], gpu[1-2]: ClusterShell would sort them."""
    found = BRACKETS.findall(part)
    if len(found) != 1 or part.count("[") != 1:
        return [part]
    return [part.replace(f"[{found[0]}]", f"[{piece}]") for piece in found[0].split(",")]


def fold(names: Iterable[str]) -> str:
    """The shortest spelling: gpu01, gpu02, gpu03 → gpu[01-03]."""
    from ClusterShell.NodeSet import NodeSet

    return str(NodeSet.fromlist(list(names), resolver=resolver({})))


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts gpu2 before gpu10."""
    return tuple((int(part), part) if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


def largest(text: str) -> int:
    """An upper bound of how many names a text stands for, found without making them."""
    return sum(largest_of_one(part) for part in BETWEEN_SETS.split(text))


def largest_of_one(text: str) -> int:
    total = 1
    for inside in BRACKETS.findall(text):
        size = 0
        for part in inside.split(","):
            found = RANGE.match(part)
            size += max(1, int(found[2][:12]) - int(found[1][:12]) + 1) if found else 1
        total *= size
    return total


def resolver(groups: Groups) -> Any:
    from ClusterShell.NodeUtils import GroupResolver, GroupSource, GroupSourceError

    class Inventory(GroupSource):  # type: ignore[misc]
        def resolv_map(self, group: str) -> str:
            """A group nobody is in is a mistyped one; ClusterShell's own answer would be no nodes and no word."""
            if group not in self.groups:
                raise GroupSourceError(f"no node is in a group {shown(group)}", self)
            return str(self.groups[group])

    listed = {name: ",".join(nodes) for name, nodes in groups.items()}
    return GroupResolver(Inventory("inventory", groups=listed, allgroups=listed.get("all", "")))
