"""What `ibstat` says. Pure."""

import re
from dataclasses import dataclass

ADAPTER = re.compile(r"^CA '([^']+)'")
PORT = re.compile(r"^\s+Port (\d+):")
FIELD = re.compile(r"^\s+(State|Physical state|Rate|Link layer): (.+?)\s*$")


@dataclass(frozen=True)
class Port:
    adapter: str
    number: int
    state: str = ""
    physical: str = ""
    rate: float | None = None
    layer: str = ""

    @property
    def name(self) -> str:
        return f"{self.adapter}/{self.number}"


def parse_ibstat(text: str) -> list[Port]:
    """Every port; of one that is cut off, what is missing stays empty, which no check takes for good."""
    ports: list[Port] = []
    adapter, number, fields = "", 0, dict[str, str]()

    def finish() -> None:
        if number:
            ports.append(made(adapter, number, fields))

    for line in text.splitlines():
        if found := ADAPTER.match(line):
            finish()
            adapter, number, fields = found[1], 0, {}
        elif found := PORT.match(line):
            finish()
            number, fields = int(found[1]), {}
        elif found := FIELD.match(line):
            fields[found[1]] = found[2]
    finish()
    return ports


def made(adapter: str, number: int, fields: dict[str, str]) -> Port:
    rate = re.match(r"[\d.]+", fields.get("Rate", ""))
    return Port(
        adapter, number, fields.get("State", ""), fields.get("Physical state", ""),
        float(rate[0]) if rate else None, fields.get("Link layer", ""),
    )  # fmt: skip
