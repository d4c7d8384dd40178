"""Reading sensors and event logs again and again, gently: each node at its own moment, one question at a time."""

import asyncio
import contextlib
import random
import time
from pathlib import Path

from headnode.bmcd import watching
from headnode.bmcd.ledger import Ledger
from headnode.bmcd.metrics import Newest
from headnode.bmcd.watching import Known
from headnode.log import logger
from headnode.sensorfiles import HOUR, History, Reading
from headnode.site import Bmc as Settings
from ipmi.bmc import Bmc
from ipmi.faults import Unsupported
from ipmi.fleet import Fleet
from ipmi.readings import EventEntry, PowerState, SensorReading

# After a start the consoles come first; then all are read soon, but not all in the same instant.
CONSOLES_FIRST, FIRST_LOOK = 2.0, 5.0


class Watch:
    """One node's health."""

    def __init__(self, name: str, directory: Path, settings: Settings, newest: Newest, ledger: Ledger) -> None:
        self.name = name
        self.directory = directory
        self.settings = settings
        self.newest = newest
        self.ledger = ledger
        self.history = History(directory)
        self.known = Known.parse(self.file.read_text() if self.file.exists() else "")
        self.remembered = str(self.known)
        self.stamp = "?"
        self.condensed = 0.0

    @property
    def file(self) -> Path:
        return self.directory / "known.json"

    async def run(self, fleet: Fleet) -> None:
        spread = random.random() * min(FIRST_LOOK, self.settings.poll_seconds)  # noqa: S311 - not a secret
        await asyncio.sleep(CONSOLES_FIRST + spread)
        while True:
            try:
                await self.look(fleet)
            except OSError as error:
                logger("headnode.bmc").error("readings cannot be kept", node=self.name, reason=str(error))
            await asyncio.sleep(self.settings.poll_seconds)

    async def look(self, fleet: Fleet) -> None:
        outcome = await fleet.one(self.name, self.read)
        health = self.newest.of(self.name)
        health.answers, health.seconds = outcome.ok, outcome.seconds
        happened = watching.status_event(
            self.name,
            self.known,
            "ok" if outcome.ok else outcome.status,
            outcome.fault.message if outcome.fault else "",
        )
        if outcome.value is not None:
            power, readings, entries = outcome.value
            health.power, health.sensors = power is PowerState.ON, readings
            happened += watching.sensor_events(self.name, self.known, readings)
            if entries is not None:
                happened += watching.log_events(self.name, self.known, entries)
            await asyncio.to_thread(self.keep, readings)
        await self.ledger.keep(happened)
        await asyncio.to_thread(self.remember)

    async def read(self, bmc: Bmc) -> tuple[PowerState, tuple[SensorReading, ...], tuple[EventEntry, ...] | None]:
        """The event log is read as a whole only when it has changed: that may be hundreds of questions."""
        power = await bmc.power()
        readings: tuple[SensorReading, ...] = ()
        with contextlib.suppress(Unsupported):
            readings = await bmc.sensors()
        entries = None
        with contextlib.suppress(Unsupported):
            stamp = await bmc.event_log_stamp()
            if not stamp or stamp != self.stamp:
                entries = await bmc.event_log()
                self.stamp = stamp
        return power, readings, entries

    def keep(self, readings: tuple[SensorReading, ...]) -> None:
        now = time.time()
        if values := watching.numbers(readings):
            self.history.add(Reading(now, values))
        if now // HOUR != self.condensed // HOUR:
            self.history.condense(now)
            self.history.forget(now, self.settings.raw_hours, self.settings.history_days)
            self.condensed = now

    def remember(self) -> None:
        """After the events are in the database: dying in between repeats an event and loses none."""
        text = str(self.known)
        if text == self.remembered:
            return
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o750)
        draft = self.file.with_suffix(".draft")
        draft.write_text(text)
        draft.replace(self.file)
        self.remembered = text
