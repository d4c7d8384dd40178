"""When the local copies of network files have to make room: limits by the size of the volume they are on. Pure."""

from dataclasses import dataclass

from headnode.sizes import UNITS

# What stays free whatever the size: below this much a burst of new files finds no room before culling has made some.
LEAST_FREE, MOST_FREE = UNITS["G"], 20 * UNITS["G"]
SHARE = 0.10


@dataclass(frozen=True)
class Limits:
    """Percentages of the volume that are free: culling ends above `run`, begins below `cull`; below `stop` nothing
    new is kept."""

    run: int
    cull: int
    stop: int


def limits(size: int | None) -> Limits:
    """A tenth stays free, but neither next to nothing of a small volume nor hundreds of gigabytes of a large one."""
    if not size:
        return Limits(10, 7, 3)
    free = min(max(size * SHARE, LEAST_FREE), MOST_FREE)
    # cachefilesd wants whole numbers, each larger than the one before, and leaves a volume below 50 per cent useless.
    run = min(max(round(100 * free / size), 3), 50)
    return Limits(run, max(2, run * 7 // 10), max(1, run * 3 // 10))
