"""Redfish resources as our readings. Pure: JSON in, dataclasses out; what is missing stays empty."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ipmi.readings import BmcUser, EventEntry, Health, Identity, SensorReading

Tree = Mapping[str, Any]
HEALTH = {"OK": Health.OK, "Warning": Health.WARNING, "Critical": Health.CRITICAL}


def health(tree: Tree) -> Health:
    status = tree.get("Status") or {}
    return HEALTH.get(str(status.get("Health")), Health.UNKNOWN)


def number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def readings(tree: Tree) -> Iterator[SensorReading]:
    """The `Thermal` and `Power` resources, which every service of the last ten years has."""
    for item in tree.get("Temperatures") or ():
        yield sensor(item, number(item.get("ReadingCelsius")), "°C", "temperature")
    for item in tree.get("Fans") or ():
        unit = "%" if item.get("ReadingUnits") == "Percent" else "RPM"
        yield sensor(item, number(item.get("Reading")), unit, "fan")
    for item in tree.get("Voltages") or ():
        yield sensor(item, number(item.get("ReadingVolts")), "V", "voltage")
    for item in tree.get("PowerControl") or ():
        yield sensor(item, number(item.get("PowerConsumedWatts")), "W", "power")


def sensor(item: Tree, value: float | None, unit: str, kind: str) -> SensorReading:
    name = item.get("Name") or item.get("FanName") or item.get("MemberId") or kind
    return SensorReading(str(name), value, unit, health(item) if value is not None else Health.UNKNOWN, kind)


def event(tree: Tree) -> EventEntry:
    return EventEntry(
        id=str(tree.get("Id", "")),
        at=moment(tree.get("Created")),
        source=str(tree.get("SensorType") or tree.get("EntryType") or ""),
        message=str(tree.get("Message") or tree.get("Name") or ""),
        health=HEALTH.get(str(tree.get("Severity")), Health.UNKNOWN),
    )


def moment(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def user(tree: Tree) -> BmcUser:
    return BmcUser(
        id=str(tree.get("Id", "")),
        name=str(tree.get("UserName", "")),
        enabled=bool(tree.get("Enabled", True)),
        role=str(tree.get("RoleId", "")).lower(),
    )


def identity(system: Tree, manager: Tree) -> Identity:
    def text(tree: Tree, key: str) -> str:
        return str(tree.get(key) or "")

    facts = (
        ("bmc model", text(manager, "Model")),
        ("bios", text(system, "BiosVersion")),
        ("sku", text(system, "SKU")),
        ("part", text(system, "PartNumber")),
    )
    return Identity(
        driver="redfish",
        vendor=text(system, "Manufacturer"),
        model=text(system, "Model"),
        serial=text(system, "SerialNumber"),
        firmware=text(manager, "FirmwareVersion"),
        guid=text(system, "UUID").lower(),
        facts=tuple((name, value) for name, value in facts if value),
    )
