"""Sensor records, event log entries, FRU data, boot flags: recorded bytes in, facts out."""

from datetime import UTC, datetime

import pytest

from headnode.lab.bmc import FAN, TEMPERATURE, LabSensor, fru_data
from ipmi import completion, fru, redfish_facts, requests, sdr, sel
from ipmi.faults import BmcFault, Refused, TimedOut, Unsupported, WrongCredentials
from ipmi.readings import BootDevice, BootOverride, Health, PowerAction


def record(sensor: LabSensor) -> sdr.SensorRecord:
    parsed = sdr.parse(sensor.record)
    assert parsed is not None
    return parsed


def test_a_fan_is_scaled_and_named() -> None:
    fan = record(LabSensor(5, "FAN0", FAN, 80, scale=100, lower_critical=10))
    assert (fan.number, fan.name, fan.unit) == (5, "FAN0", "RPM")
    assert fan.value(80) == 8000


@pytest.mark.parametrize(
    ("states", "health"),
    [(0x00, Health.OK), (0x08, Health.WARNING), (0x18, Health.CRITICAL), (0x02, Health.CRITICAL), (0xC0, Health.OK)],
)
def test_crossed_thresholds_are_health(states: int, health: Health) -> None:
    reading = sdr.reading(record(LabSensor(1, "CPU", TEMPERATURE, 45)), bytes((45, 0x40, states)))
    assert (reading.value, reading.unit, reading.health) == (45.0, "°C", health)


@pytest.mark.parametrize("flags", [0x60, 0x00, 0x20])
def test_a_sensor_that_cannot_read_has_no_value(flags: int) -> None:
    reading = sdr.reading(record(LabSensor(1, "GPU", TEMPERATURE, 45)), bytes((45, flags, 0)))
    assert reading.value is None
    assert reading.health is Health.UNKNOWN


@pytest.mark.parametrize(
    ("made", "raw", "value"),
    [
        (sdr.SensorRecord(1, 0, "t", 1, 1, format=2), 0xF6, -10.0),
        (sdr.SensorRecord(1, 0, "t", 1, 1, format=1), 0xF5, -10.0),
        (sdr.SensorRecord(1, 0, "v", 2, 1, format=0, m=60, result_exponent=-3), 200, 12.0),
        (sdr.SensorRecord(1, 0, "t", 1, 1, format=0, m=1, b=-5, b_exponent=1), 100, 50.0),
        (sdr.SensorRecord(1, 0, "f", 4, 1, format=0, linearization=7), 0, None),
        (sdr.SensorRecord(1, 0, "d", 8, 0x6F, format=3), 1, None),
    ],
)
def test_raw_values_follow_the_formula(made: sdr.SensorRecord, raw: int, value: float | None) -> None:
    assert made.value(raw) == value


def test_other_records_are_not_sensors() -> None:
    assert sdr.parse(bytes.fromhex("01005112 03 000000")) is None


def test_six_bit_names() -> None:
    assert sdr.text(bytes((0x83, 0x29, 0xDC, 0xA6)), 0) == "IPMI"


ENTRY = bytes.fromhex("0100 02 80e1f065 2000 04 01 03 01 59 5f 5c")


def test_an_event_has_time_source_and_meaning() -> None:
    event = sel.parse(ENTRY, {3: "GPU0 Temp"})
    assert event.at == datetime.fromtimestamp(0x65F0E180, UTC)
    assert (event.source, event.message, event.health) == (
        "GPU0 Temp",
        "went above upper critical",
        Health.CRITICAL,
    )


def test_the_end_of_an_event_is_no_alarm() -> None:
    over = sel.parse(ENTRY[:12] + b"\x81" + ENTRY[13:], {})
    assert (over.asserted, over.health, over.source) == (False, Health.OK, "temperature #3")


def test_a_clock_that_was_not_set_gives_no_time() -> None:
    assert sel.parse(ENTRY[:3] + b"\x09\x00\x00\x00" + ENTRY[7:], {}).at is None


def test_memory_errors_and_the_unknown_are_both_told() -> None:
    memory = sel.parse(ENTRY[:10] + b"\x0c\x07\x6f\x01\xff\xff", {})
    assert memory.message == "uncorrectable memory error"
    oem = sel.parse(b"\x01\x00\xdf" + ENTRY[3:], {})
    assert "OEM record 0xdf" in oem.message


def test_fru_facts_survive_the_round_trip() -> None:
    assert fru.parse(fru_data("ACME", "GPU box", "SN-1")) == {
        "product vendor": "ACME",
        "product model": "GPU box",
        "product serial": "SN-1",
    }


@pytest.mark.parametrize("device", list(BootDevice))
def test_boot_flags_read_back_as_they_were_set(device: BootDevice) -> None:
    asked = requests.set_boot_flags(device, persistent=True, uefi=True)
    said = requests.boot_flags(b"\x01\x05" + asked.data[1:])
    wanted = device is not BootDevice.NONE
    assert said == BootOverride(device, persistent=wanted, uefi=wanted)


def test_power_commands_are_the_documented_numbers() -> None:
    codes = {action: requests.chassis_control(action).data[0] for action in PowerAction}
    assert codes == {"off": 0, "on": 1, "cycle": 2, "reset": 3, "soft": 5}


@pytest.mark.parametrize(
    ("code", "fault"),
    [(0xC1, Unsupported), (0xD4, WrongCredentials), (0xC3, TimedOut), (0xD5, Refused), (0x42, Refused)],
)
def test_completion_codes_become_faults(code: int, fault: type[BmcFault]) -> None:
    assert isinstance(completion.fault_for(code, "10.0.0.1", "power on"), fault)


def test_redfish_readings() -> None:
    thermal = {
        "Temperatures": [
            {"Name": "GPU0", "ReadingCelsius": 91, "Status": {"Health": "Critical"}},
            {"Name": "empty", "ReadingCelsius": None},
        ],
        "Fans": [{"FanName": "F1", "Reading": 60, "ReadingUnits": "Percent", "Status": {"Health": "OK"}}],
        "PowerControl": [{"Name": "System", "PowerConsumedWatts": 5120.5}],
    }
    found = {r.name: (r.value, r.unit, r.health) for r in redfish_facts.readings(thermal)}
    assert found["GPU0"] == (91.0, "°C", Health.CRITICAL)
    assert found["empty"] == (None, "°C", Health.UNKNOWN)
    assert found["F1"] == (60.0, "%", Health.OK)
    assert found["System"] == (5120.5, "W", Health.UNKNOWN)


def test_redfish_events_tolerate_missing_fields() -> None:
    event = redfish_facts.event({"Id": 1, "Created": "not a time", "Severity": "Odd"})
    assert (event.id, event.at, event.health) == ("1", None, Health.UNKNOWN)
