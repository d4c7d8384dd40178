"""Walking sensor records and event logs of BMCs that do not make it easy."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headnode.lab.bmc import SENSORS
from ipmi.faults import BadAnswer, Refused
from ipmi.ipmi_driver import IpmiBmc
from ipmi.readings import Credentials, EventEntry, SensorReading
from ipmi.rmcp.engine import Engine
from tests.ipmi.fake_bmc import FakeBmc, serving

ENTRY = bytes.fromhex("0100 02 80e1f065 2000 04 01 03 01 59 5f 5c")


def ask(bmc: FakeBmc, question: Callable[[IpmiBmc], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with serving(bmc) as port, Engine("127.0.0.1") as engine:
            link = await engine.link("127.0.0.1", Credentials("admin", "secret"), port=port)
            return await question(IpmiBmc(link, settle=0.3))

    return asyncio.run(run())


class Repository:
    """The lab's sensor records, handed out as grudgingly as told."""

    def __init__(self, *, whole: bool = True, lose_reservation_at: int | None = None) -> None:
        self.records = [sensor.record for sensor in SENSORS]
        self.whole = whole
        self.lose_at = lose_reservation_at
        self.reservation = 0
        self.asked = 0
        self.info_asked = 0

    def answers(self) -> dict[tuple[int, int], Callable[[bytes], tuple[int, bytes]]]:
        return {
            (0x0A, 0x20): self.info,
            (0x0A, 0x22): self.reserve,
            (0x0A, 0x23): self.get,
            (0x04, 0x2D): lambda data: (0xCB, b"") if data[0] == 4 else (0, bytes((SENSORS[data[0] - 1].raw, 0x40, 0))),
        }

    def info(self, data: bytes) -> tuple[int, bytes]:
        self.info_asked += 1
        return 0, b"\x51\x07\x00" + bytes(11)

    def reserve(self, data: bytes) -> tuple[int, bytes]:
        self.reservation += 1
        return 0, self.reservation.to_bytes(2, "little")

    def get(self, data: bytes) -> tuple[int, bytes]:
        self.asked += 1
        if self.asked == self.lose_at:
            self.reservation += 1
        reservation, record = int.from_bytes(data[:2], "little"), int.from_bytes(data[2:4], "little")
        offset, count = data[4], data[5]
        if count > 16 and not self.whole:
            return 0xCA, b""
        if offset and reservation != self.reservation:
            return 0xC5, b""
        index = 0 if record == 0 else record
        following = index + 1 if index + 1 < len(self.records) else 0xFFFF
        return 0, following.to_bytes(2, "little") + self.records[index][offset : offset + count]


@pytest.mark.parametrize(
    "repository",
    [Repository(), Repository(whole=False), Repository(whole=False, lose_reservation_at=9)],
    ids=["whole", "in pieces", "reservation lost on the way"],
)
def test_sensors_are_read_from_every_kind_of_repository(repository: Repository) -> None:
    async def twice(bmc: IpmiBmc) -> tuple[SensorReading, ...]:
        first = await bmc.sensors()
        asked = repository.asked
        assert await bmc.sensors() == first
        assert repository.asked == asked, "records that did not change are not read again"
        return first

    readings = ask(FakeBmc(answers=repository.answers()), twice)
    assert [reading.name for reading in readings] == [sensor.name for sensor in SENSORS]
    values = {reading.name: reading.value for reading in readings}
    assert values["FAN0"] == 8000
    assert values["GPU1 Temp"] is None, "a sensor that is not there does not hide the others"


def log_of(entries: list[bytes], cleared_at: int | None = None) -> FakeBmc:
    asked = 0

    def get(data: bytes) -> tuple[int, bytes]:
        nonlocal asked
        asked += 1
        number = int.from_bytes(data[2:4], "little")
        if cleared_at is not None and asked > cleared_at:
            return 0xCB, b""
        following = number + 1 if number + 1 < len(entries) else 0xFFFF
        return 0, following.to_bytes(2, "little") + entries[number]

    return FakeBmc(
        answers={
            (0x0A, 0x20): lambda data: (0xC1, b""),
            (0x0A, 0x40): lambda data: (0, b"\x51" + len(entries).to_bytes(2, "little") + bytes(11)),
            (0x0A, 0x43): get,
        }
    )


def test_an_event_log_without_sensor_names() -> None:
    events: tuple[EventEntry, ...] = ask(log_of([ENTRY] * 3), lambda bmc: bmc.event_log())
    assert [event.source for event in events] == ["temperature #3"] * 3


def test_an_event_log_cleared_while_it_is_read() -> None:
    assert len(ask(log_of([ENTRY] * 5, cleared_at=2), lambda bmc: bmc.event_log())) == 2


def test_an_empty_event_log() -> None:
    assert ask(log_of([]), lambda bmc: bmc.event_log()) == ()


def test_a_log_that_never_ends_is_cut_at_its_own_count() -> None:
    bmc = log_of([ENTRY] * 2)
    bmc.answers[0x0A, 0x43] = lambda data: (0, b"\x00\x00" + ENTRY)
    assert len(ask(bmc, lambda bmc: bmc.event_log())) == 2


def test_a_damaged_record_is_a_bad_answer() -> None:
    repository = Repository()
    repository.records[0] = repository.records[0][:20]
    with pytest.raises(BadAnswer):
        ask(FakeBmc(answers=repository.answers()), lambda bmc: bmc.sensors())


def test_a_refusal_is_told_with_its_code() -> None:
    bmc = FakeBmc(answers={(0, 1): lambda data: (0xD5, b"")})
    with pytest.raises(Refused, match=r"cannot do that in its present state \(0xd5\)"):
        ask(bmc, lambda bmc: bmc.power())
