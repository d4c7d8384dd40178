"""What Prometheus is told: the newest readings, and how BMCs and consoles are."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ipmi.readings import SensorReading


@dataclass
class NodeHealth:
    """The newest of one node."""

    answers: bool = False
    power: bool | None = None
    seconds: float = 0.0
    console: bool = False
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
            console.add_metric([name], node.console)
            if node.power is not None:
                power.add_metric([name], node.power)
            for reading in node.sensors:
                if reading.value is not None:
                    sensor.add_metric([name, reading.name, reading.unit], reading.value)
                level = {"warning": 1, "critical": 2}.get(reading.health.value, 0)
                bad.add_metric([name, reading.name], level)
        yield from (up, power, took, console, sensor, bad)

    def page(self) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)
