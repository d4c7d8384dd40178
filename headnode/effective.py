"""What a node is in effect, and who said so.

The nearest voice wins: the node itself, its groups (in the order they stand in site.yaml), its profile, that
profile's parents, the site's defaults, and last what Headnode ships.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from headnode.errors import InvalidField, NotFound, shown
from headnode.model import Node
from headnode.site import BUILT_IN, Settings, Site

SETTINGS = tuple(Settings.model_fields)


@dataclass(frozen=True)
class Value:
    value: Any
    source: str


def effective(site: Site, node: Node) -> dict[str, Value]:
    voices = list(sources(site, node))
    return {key: nearest(key, voices) for key in SETTINGS}


def value(site: Site, node: Node, key: str) -> Any:
    return values(site, node, (key,))[0]


def values(site: Site, node: Node, keys: Sequence[str]) -> list[Any]:
    voices = list(sources(site, node))
    return [nearest(key, voices).value for key in keys]


def nearest(key: str, voices: list[tuple[str, dict[str, Any]]]) -> Value:
    for source, said in voices:
        if said.get(key) is not None:
            return Value(said[key], source)
    return Value(None, "not set")


def sources(site: Site, node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "node", dict(node.settings)
    for name, group in site.groups.items():
        if name in node.groups:
            yield f"group {name}", dict(group)
    yield from profile_chain(site, node.profile)
    yield "site defaults", {**dict(site.defaults), "bmc_user": site.defaults.bmc_user or site.bmc.user}
    yield "built in", dict(BUILT_IN)


def profile_chain(site: Site, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    at: str | None = name
    kind = "profile"
    while at is not None:
        profile = site.profiles.get(at)
        if profile is None:
            return
        yield f"{kind} {at}", dict(profile)
        at, kind = profile.parent, "parent profile"


def known_profile(site: Site, name: str, *, where: str = "") -> str:
    if name not in site.profiles:
        known = ", ".join(site.profiles) or "none yet"
        raise InvalidField("profile", name, f"use one of the site's profiles: {known}", where=where)
    return name


def parse_setting(key: str, text: str) -> Any:
    """A value given as text on the command line; lists are separated by blanks."""
    if key not in SETTINGS:
        raise NotFound(f"there is no setting {shown(key)}; known are {', '.join(SETTINGS)}")
    raw: Any = text.split() if key in ("kernel_args", "packages", "nvidia_mig", "access") else text
    try:
        return dict(Settings.model_validate({key: raw}))[key]
    except ValidationError as error:
        from headnode.sitefile import advice

        raise InvalidField(key, text, advice(dict(error.errors()[0]))) from None
