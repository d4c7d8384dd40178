"""Networks for Docker that overlap nothing of the site. Docker's own choice starts at 172.17.0.0/16 and asks nobody."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, collapse_addresses

from headnode.errors import HeadnodeError

PRIVATE = tuple(IPv4Network(text) for text in ("172.16.0.0/12", "192.168.0.0/16", "10.0.0.0/8", "100.64.0.0/10"))
# Each pool is cut into /24 networks, so one of this size is enough for 16 of them.
LONGEST_POOL = 20
POOLS = 4


def docker_pools(taken: Iterable[IPv4Network], count: int = POOLS) -> list[IPv4Network]:
    """The largest private networks, at most a /16 each, that are not in use; the same answer for the same site."""
    used = list(collapse_addresses(taken))
    found: list[IPv4Network] = []
    for length in range(16, LONGEST_POOL + 1):
        for candidate in candidates(length):
            if len(found) == count:
                return found
            if not any(candidate.overlaps(other) for other in [*used, *found]):
                found.append(candidate)
    if not found:
        raise HeadnodeError(
            "the site's networks leave no private network for Docker",
            hint=f"use smaller networks, so that a /{LONGEST_POOL} of private addresses is free",
        )
    return found


def candidates(length: int) -> Iterator[IPv4Network]:
    for whole in PRIVATE:
        yield from whole.subnets(new_prefix=length)
