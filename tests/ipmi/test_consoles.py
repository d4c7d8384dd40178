"""Serial packets, recordings, phases, and the recorder that keeps a console open."""

import asyncio
import hashlib
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipmi import recording, sol
from ipmi.faults import BmcFault, ConsoleTaken, TimedOut, Unreachable
from ipmi.phases import Phase, PhaseRecogniser, recognise
from ipmi.recorder import ConsoleRecorder, Viewer
from ipmi.recording import Kind, Record, Recording
from ipmi.rmcp.backoff import Backoff


class TestSol:
    @given(st.integers(0, 15), st.integers(0, 15), st.integers(0, 255), st.integers(0, 255), st.binary(max_size=255))
    def test_round_trip(self, number: int, ack: int, accepted: int, status: int, data: bytes) -> None:
        packet = sol.SolPacket(number, ack, accepted, status, data)
        assert sol.parse(sol.build(packet)) == packet

    def test_a_repetition_that_grew_is_acknowledged_as_before(self) -> None:
        inbound = sol.Inbound()
        assert inbound.take(sol.SolPacket(3, data=b"abc")) == (b"abc", sol.SolPacket(0, 3, 3))
        assert inbound.take(sol.SolPacket(3, data=b"abcdef")) == (b"", sol.SolPacket(0, 3, 3))
        assert inbound.take(sol.SolPacket(4, data=b"def")) == (b"def", sol.SolPacket(0, 4, 3))

    def test_a_bare_acknowledgement_is_not_answered(self) -> None:
        assert sol.Inbound().take(sol.SolPacket(0, 5, 2)) == (b"", None)

    def test_numbers_go_round_without_zero(self) -> None:
        numbers = [0]
        for _ in range(16):
            numbers.append(sol.next_number(numbers[-1]))
        assert numbers == [0, *range(1, 16), 1]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class TestRecording:
    def test_what_was_written_is_read(self, tmp_path: Path) -> None:
        writer = Recording(tmp_path, clock=Clock())
        wrote = [writer.write(Kind.DATA, f"line {n}\r\n".encode()) for n in range(100)]
        wrote.append(writer.write(Kind.DEAF, b"why"))
        read = list(recording.read(tmp_path))
        assert [(r.kind, r.data) for r in read] == [(r.kind, r.data) for r in wrote]

    def test_it_rotates_and_stays_within_its_bound(self, tmp_path: Path) -> None:
        writer = Recording(tmp_path, segment_bytes=10_000, keep_bytes=50_000, clock=Clock())
        for _ in range(300):
            writer.write(Kind.DATA, b"x" * 1000)
        assert sum(file.stat().st_size for file in tmp_path.glob("*.rec")) <= 50_000
        assert len(recording.segments(tmp_path)) == len(list(tmp_path.glob("*.idx")))
        kept = sum(len(record.data) for record in recording.read(tmp_path))
        assert kept >= 30_000

    def test_reading_since_a_moment_uses_names_and_index(self, tmp_path: Path) -> None:
        clock = Clock()
        writer = Recording(tmp_path, segment_bytes=200_000, clock=clock)
        for number in range(1000):
            writer.write(Kind.DATA, f"{number:04d}".encode() + b"." * 996)
        since = 1_700_000_000.0 + 0.001 * 700.5
        read = list(recording.read(tmp_path, since))
        assert read[0].data[:4] == b"0700"
        assert len(read) == 300
        middle = recording.segments(tmp_path)[3]
        assert recording.offset_for(middle.with_suffix(".idx"), since) > 0

    @pytest.mark.parametrize("cut", [1, 5, 13, 14])
    def test_a_crash_loses_only_the_last_record(self, tmp_path: Path, cut: int) -> None:
        writer = Recording(tmp_path, clock=Clock())
        for text in (b"one", b"two"):
            writer.write(Kind.DATA, text)
        writer.close()
        [file] = recording.segments(tmp_path)
        os.truncate(file, file.stat().st_size - cut)
        again = Recording(tmp_path, clock=Clock())
        again.clock = lambda: 1_700_000_900.0
        again.write(Kind.DATA, b"three")
        assert [record.data for record in recording.read(tmp_path)] == [b"one", b"three"]

    def test_the_scrollback_is_the_end_of_the_output(self, tmp_path: Path) -> None:
        writer = Recording(tmp_path, segment_bytes=500, clock=Clock())
        for number in range(100):
            writer.write(Kind.DATA, f"{number:03d} ".encode())
            writer.write(Kind.DEAF, b"not output")
        assert recording.tail(tmp_path, 8) == b"098 099 "

    @given(st.binary(max_size=400))
    def test_any_bytes_can_be_read_as_a_segment(self, tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
        file = tmp_path_factory.mktemp("rec") / "00000000000000000001.rec"
        file.write_bytes(data)
        assert all(isinstance(record, Record) for record in recording.read_segment(file))


BOOT = (
    b"SeaBIOS (version 1.16.2-debian)\r\n\r\niPXE 1.0.0+git -- Open Source Network Boot Firmware\r\n"
    b"net0: 52:54:00:12:34:56 using 82540em on 0000:00:03.0\r\n"
    b"\x1b[2J\x1b[1;1HGNU GRUB  version 2.06\r\nLoading Linux 6.1.0 ...\r\n"
    b"[    0.000000] Linux version 6.1.0-18-amd64\r\n[    1.2] loading\r\n"
    b"\r\nDebian GNU/Linux 12 gpu01 ttyS0\r\n\r\ngpu01 login: "
)


class TestPhases:
    def test_a_whole_start(self) -> None:
        assert PhaseRecogniser().feed(BOOT) == [
            Phase.FIRMWARE,
            Phase.PXE,
            Phase.BOOT_LOADER,
            Phase.KERNEL,
            Phase.LOGIN,
        ]

    @given(st.integers(1, 40))
    def test_however_it_is_cut(self, size: int) -> None:
        recogniser = PhaseRecogniser()
        found = [p for at in range(0, len(BOOT), size) for p in recogniser.feed(BOOT[at : at + size])]
        assert found == [Phase.FIRMWARE, Phase.PXE, Phase.BOOT_LOADER, Phase.KERNEL, Phase.LOGIN]

    @pytest.mark.parametrize(
        ("line", "phase"),
        [
            (b"[   12.3] Kernel panic - not syncing: Attempted to kill init!", Phase.PANIC),
            (b"BdsDxe: loading Boot0001", Phase.FIRMWARE),
            (b">>Start PXE over IPv4.", Phase.PXE),
            (b"last login: yesterday", None),
            (b"the iPXE project", None),
            (b"(initramfs) ", Phase.PANIC),
        ],
    )
    def test_lines(self, line: bytes, phase: Phase | None) -> None:
        assert recognise(line) is phase

    @given(st.binary(max_size=2000))
    def test_noise_does_not_break_it(self, noise: bytes) -> None:
        recogniser = PhaseRecogniser()
        recogniser.feed(noise)
        assert len(recogniser.line) <= 512


class FakeConsole:
    def __init__(self) -> None:
        self.output: asyncio.Queue[bytes] = asyncio.Queue()
        self.typed = b""
        self.closed = False

    async def read(self) -> bytes:
        return await self.output.get()

    async def write(self, data: bytes) -> None:
        self.typed += data

    async def close(self) -> None:
        self.closed = True


class TestRecorder:
    def recorder(self, directory: Path, consoles: list[FakeConsole | BmcFault]) -> ConsoleRecorder:
        async def connect() -> FakeConsole:
            if not consoles:
                await asyncio.sleep(3600)
            following = consoles.pop(0)
            if isinstance(following, BmcFault):
                raise following
            return following

        recording = Recording(directory)
        return ConsoleRecorder("gpu01", connect, recording, backoff=Backoff(first=0.01, longest=0.01))

    def test_records_and_shows_to_many(self, tmp_path: Path) -> None:
        async def run() -> None:
            console = FakeConsole()
            recorder = self.recorder(tmp_path, [console])
            recorder.start()
            async with recorder.watch() as one, recorder.watch() as two:
                console.output.put_nowait(b"hello")
                assert [(await viewer.next()).data for viewer in (one, two)] == [b"hello", b"hello"]
            assert not recorder.viewers
            await recorder.stop()
            assert console.closed

        asyncio.run(run())
        assert recording.tail(tmp_path, 100) == b"hello"

    def test_reconnects_and_marks_when_it_was_deaf(self, tmp_path: Path) -> None:
        async def run() -> None:
            first, second = FakeConsole(), FakeConsole()
            recorder = self.recorder(tmp_path, [first, Unreachable("BMC 10.0.0.1 gave no answer"), second])
            recorder.start()
            first.output.put_nowait(b"before")
            first.output.put_nowait(b"")
            second.output.put_nowait(b"after")
            async with asyncio.timeout(5):
                while b"after" not in recording.tail(tmp_path, 100):
                    await asyncio.sleep(0.01)
            await recorder.stop()

        asyncio.run(run())
        records = list(recording.read(tmp_path))
        assert [record.kind for record in records] == [Kind.DATA, Kind.DEAF, Kind.HEARING, Kind.DATA]
        assert records[2].text.startswith("deaf from ")
        assert "gave no answer" in records[2].text

    def test_a_new_recorder_says_since_when_nobody_listened(self, tmp_path: Path) -> None:
        old = Recording(tmp_path)
        old.write(Kind.DATA, b"the past")
        old.close()
        [file] = recording.segments(tmp_path)
        os.utime(file, (1_700_000_000, 1_700_000_000))

        async def run() -> None:
            recorder = self.recorder(tmp_path, [FakeConsole()])
            recorder.start()
            await asyncio.sleep(0.05)
            await recorder.stop()

        asyncio.run(run())
        marks = [record.text for record in recording.read(tmp_path) if record.kind is Kind.HEARING]
        assert len(marks) == 1
        assert marks[0].startswith("deaf from 2023-11-14T22:13:20Z to ")
        assert marks[0].endswith("the recorder was not running")

    def test_one_keyboard_unless_shared(self, tmp_path: Path) -> None:
        async def run() -> None:
            console = FakeConsole()
            recorder = self.recorder(tmp_path, [console])
            with pytest.raises(TimedOut, match="not connected"):
                await recorder.type("ann", b"x")
            recorder.start()
            await asyncio.sleep(0.01)
            async with recorder.typing("ann") as write:
                await write(b"ls\r")
                with pytest.raises(ConsoleTaken, match="ann is typing"):
                    async with recorder.typing("bob"):
                        pass
                with pytest.raises(ConsoleTaken):
                    async with recorder.typing("bob", share=True):
                        pass
            async with recorder.typing("ann", share=True), recorder.typing("bob", share=True) as write:
                await write(b"w\r")
            assert console.typed == b"ls\rw\r"
            await recorder.stop()

        asyncio.run(run())

    def test_a_full_disk_is_a_gap_and_not_the_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.write
        full = True

        def write(descriptor: int, data: bytes) -> int:
            return real(descriptor, data[: len(data) // 2]) if full else real(descriptor, data)

        async def run() -> None:
            nonlocal full
            first, second = FakeConsole(), FakeConsole()
            recorder = self.recorder(tmp_path, [first, *[second] * 20])
            recorder.recording.write(Kind.DATA, b"before")
            monkeypatch.setattr("ipmi.recording.os.write", write)
            recorder.start()
            first.output.put_nowait(b"lost")
            second.output.put_nowait(b"kept")
            await asyncio.sleep(0.01)
            full = False
            await asyncio.sleep(0.2)
            await recorder.stop()

        asyncio.run(run())
        records = list(recording.read(tmp_path))
        assert records[0].data == b"before"
        assert records[-1].data == b"kept"
        assert any(record.kind is Kind.HEARING for record in records)

    def test_phases_become_events(self, tmp_path: Path) -> None:
        seen: list[Phase] = []

        async def run() -> None:
            console = FakeConsole()
            recorder = self.recorder(tmp_path, [console])
            recorder.on_phase = seen.append
            recorder.start()
            console.output.put_nowait(BOOT)
            await asyncio.sleep(0.05)
            await recorder.stop()

        asyncio.run(run())
        assert seen[-1] is Phase.LOGIN

    def test_a_slow_viewer_loses_the_oldest_and_knows_it(self) -> None:
        async def run() -> None:
            viewer = Viewer()
            for number in range(1030):
                viewer.show(Record(Kind.DATA, 0.0, str(number).encode()))
            assert viewer.missed == 6
            assert (await viewer.next()).data == b"6"

        asyncio.run(run())

    def test_nothing_is_lost_between_console_and_disk(self, tmp_path: Path) -> None:
        chunks = [random.Random(n).randbytes(300) for n in range(200)]

        async def run() -> None:
            console = FakeConsole()
            recorder = self.recorder(tmp_path, [console])
            recorder.start()
            for chunk in chunks:
                console.output.put_nowait(chunk)
            await asyncio.sleep(0.2)
            await recorder.stop()

        asyncio.run(run())
        kept = b"".join(record.data for record in recording.read(tmp_path))
        assert hashlib.sha256(kept).digest() == hashlib.sha256(b"".join(chunks)).digest()
