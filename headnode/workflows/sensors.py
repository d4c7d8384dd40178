"""Sensor readings over time, from the files that headnode-bmc writes."""

import time
from typing import Any

from headnode.model import Node
from headnode.sensorfiles import History
from headnode.workflows.context import Context

# Beyond this the hours' values say as much and are fewer.
RAW_HOURS = 24
MOST_POINTS = 2000


def history(context: Context, node: Node, hours: float) -> dict[str, Any]:
    """Columns for a plot: moments, and for each sensor a value or nothing at each of them."""
    kept = History(context.paths.sensors / node.name)
    since = time.time() - hours * 3600
    if hours <= RAW_HOURS:
        readings = [(reading.at, dict(reading.values)) for reading in kept.readings(since)]
    else:
        readings = [(float(hour.at), {name: mean for name, (_, mean, _) in hour.values.items()})
                    for hour in kept.hours(since)]  # fmt: skip
    readings = readings[:: max(1, -(-len(readings) // MOST_POINTS))]
    names = list(dict.fromkeys(name for _, values in readings for name in values))
    return {
        "at": [round(at) for at, _ in readings],
        "sensors": {name: [values.get(name) for _, values in readings] for name in names},
    }
