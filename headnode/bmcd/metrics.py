"""What Prometheus is told: the newest readings, and how BMCs and consoles are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ipmi.readings import SensorReading
from ipmi.stagger import watts


@dataclass
class NodeHealth:
    """The newest of one node."""

    answers: bool = False
    power: bool | None = None
    seconds: float = 0.0
    # Asked when the page is made, because a console comes and goes between two readings.
    console: Callable[[], bool] = lambda: False
    sensors: tuple[SensorReading, ...] = ()


# Compared by identity: the registry keeps collectors in a dictionary.
@dataclass(eq=False)
class Newest(Collector):
    nodes: dict[str, NodeHealth] = field(default_factory=dict)

    def of(self, name: str) -> NodeHealth:
        return self.nodes.setdefault(name, NodeHealth())

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("headnode_bmc_up", "Whether the BMC answered when last asked", labels=["node"])
        power = GaugeMetricFamily("headnode_power_on", "Whether the node is switched on", labels=["node"])
        took = GaugeMetricFamily("headnode_bmc_poll_seconds", "How long the last reading took", labels=["node"])
        console = GaugeMetricFamily("headnode_console_up", "Whether the console is being recorded", labels=["node"])
        sensor = GaugeMetricFamily("headnode_sensor", "A sensor's newest value", labels=["node", "sensor", "unit"])
        bad = GaugeMetricFamily("headnode_sensor_bad", "1 beyond warning, 2 beyond critical", labels=["node", "sensor"])
        for name, node in list(self.nodes.items()):
            up.add_metric([name], node.answers)
            took.add_metric([name], node.seconds)
            console.add_metric([name], node.console())
            if node.power is not None:
                power.add_metric([name], node.power)
            for reading in node.sensors:
                if reading.value is not None:
                    sensor.add_metric([name, reading.name, reading.unit], reading.value)
                level = {"warning": 1, "critical": 2}.get(reading.health.value, 0)
                bad.add_metric([name, reading.name], level)
        yield from (up, power, took, console, sensor, bad)

    def glance(self) -> dict[str, dict[str, Any]]:
        """What a page that shows every node needs of each: no more, because there may be ten thousand."""
        return {
            name: {
                "answers": node.answers,
                "power": node.power,
                "watts": watts(node.sensors),
                "hottest": hottest(node.sensors),
                "bad": [reading.name for reading in node.sensors if reading.health.value in ("warning", "critical")],
            }
            for name, node in list(self.nodes.items())
        }

    def page(self) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)


def hottest(readings: Sequence[SensorReading]) -> tuple[str, float] | None:
    """The sensor that shows the highest temperature, and how high."""
    found = [
        (reading.value, reading.name) for reading in readings if reading.unit == "°C" and reading.value is not None
    ]
    return (max(found)[1], max(found)[0]) if found else None
