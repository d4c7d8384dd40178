"""An image on its way from the head node to the disk: counted, hashed and unpacked while it comes."""

import hashlib
import http.client
import queue
import re
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO

from .errors import StepFailed
from .head import COME_BACK, Head, NoAnswer, pauses
from .plan import Step
from .runner import PIPE, Process, start

CHUNK = 1 << 20
# This long nothing may come before the download is given up; every byte that arrives starts it anew.
PATIENCE = 300.0
Progress = Callable[[int], None]
Sleep = Callable[[float], None]


class Ahead:
    """An image's bytes, fetched and hashed in a thread of their own, while the disks are still being prepared."""

    def __init__(
        self, head: Head, step: Step, *, patience: float = PATIENCE, sleep: Sleep = time.sleep, room: int | None = None
    ) -> None:
        self._pieces = download(head, step, patience, sleep)
        self._queue: queue.Queue[bytes | None] = queue.Queue(max(1, (room or spare_memory()) // CHUNK))
        self._digest = hashlib.sha256()
        self._begun = threading.Event()
        self._problem: Exception | None = None
        self._over = False
        self._thread = threading.Thread(target=self._fetch, name="image", daemon=True)
        self._thread.start()

    def wait_until_begun(self) -> None:
        """An image that is not there, or not whole, is better noticed before a disk is erased than after."""
        self._begun.wait()
        self._complain()

    def __iter__(self) -> Iterator[bytes]:
        while (piece := self._queue.get()) is not None:
            # Unpacking what is left would only keep somebody waiting for the bad news.
            self._complain()
            yield piece
        self._complain()

    def _complain(self) -> None:
        if self._problem is not None:
            raise self._problem

    @property
    def sha256(self) -> str:
        """Of everything, once everything was read."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Nobody reads on; a thread that waits for room in the queue is let go."""
        self._over = True
        while self._thread.is_alive() and not self._queue.empty():
            self._queue.get()
            self._thread.join(timeout=0.1)

    def _fetch(self) -> None:
        try:
            for piece in self._pieces:
                if self._over:
                    return
                self._digest.update(piece)
                self._queue.put(piece)
                self._begun.set()
        except Exception as error:  # noqa: BLE001 - whoever reads is told
            self._problem = error
        finally:
            self._begun.set()
            self._pieces.close()
            self._queue.put(None)


def spare_memory(most: int = 64 << 20) -> int:
    """How many bytes may wait in memory: a small share of what is free, and no more than is of use."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return min(int(found[1]) * 1024 // 8 if found else most, most)


def unpack(
    head: Head,
    step: Step,
    progress: Progress,
    *,
    patience: float = PATIENCE,
    sleep: Sleep = time.sleep,
    ahead: Ahead | None = None,
) -> None:
    """Download → SHA-256 → zstd → tar. What is on the disk counts only when all four agree."""
    pieces = ahead or Ahead(head, step, patience=patience, sleep=sleep)
    received = 0
    with tempfile.TemporaryFile() as words:
        pipeline = Pipeline(step.target, words)
        try:
            for piece in pieces:
                received += len(piece)
                pipeline.write(piece)
                progress(received)
            problem = pipeline.finish()
        finally:
            pipeline.kill()
            pieces.close()
    if pieces.sha256 != step.sha256:
        raise StepFailed(
            f"the image {step.url} is damaged: its SHA-256 is {pieces.sha256}, and the plan says {step.sha256}"
        )
    if problem:
        raise StepFailed(f"the image {step.url} could not be unpacked: {problem}")


class Pipeline:
    """zstd and tar, one into the other."""

    def __init__(self, target: str, words: IO[bytes]) -> None:
        self._words = words
        self._zstd = start(["zstd", "-dcq", "--long=31"], stdin=PIPE, stdout=PIPE, stderr=words)
        tar = ["tar", "--extract", "--preserve-permissions", "--numeric-owner", "--xattrs", "--xattrs-include=*",
               "--acls", "--directory", target]  # fmt: skip
        self._tar: Process = start(tar, stdin=self._zstd.stdout, stderr=words)
        if self._zstd.stdout is not None:
            self._zstd.stdout.close()
        self._broken = False

    def write(self, piece: bytes) -> None:
        """After one of them gave up, the rest is only hashed: whether the image was at fault is the true reason."""
        if self._broken or self._zstd.stdin is None:
            return
        try:
            self._zstd.stdin.write(piece)
        except BrokenPipeError:
            self._broken = True
            if self._tar.wait() != 0 and (problem := self._said()) and "No space left" in problem:
                raise StepFailed(f"the file systems are too small for the image: {problem}") from None

    def finish(self) -> str:
        """Wait for both; the words of whoever failed, or nothing."""
        try:
            if self._zstd.stdin is not None:
                self._zstd.stdin.close()
        except BrokenPipeError:
            self._broken = True
        codes = (self._zstd.wait(), self._tar.wait())
        return (self._said() or f"zstd and tar ended with {codes[0]} and {codes[1]}") if any(codes) else ""

    def kill(self) -> None:
        for process in (self._zstd, self._tar):
            if process.poll() is None:
                process.kill()
                process.wait()
        if self._zstd.stdin is not None and not self._zstd.stdin.closed:
            try:
                self._zstd.stdin.close()
            except BrokenPipeError:
                self._broken = True

    def _said(self, most: int = 500) -> str:
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").strip().splitlines()
        return " / ".join(line.strip() for line in lines[:3])[:most]


def download(
    head: Head, step: Step, patience: float = PATIENCE, sleep: Sleep = time.sleep
) -> Generator[bytes, None, None]:
    """The image's bytes in order; a connection that breaks is taken up again where it broke."""
    received = 0
    waits = pauses(patience)
    while received < step.size:
        before = received
        try:
            for piece in once(head, step, received):
                received += len(piece)
                yield piece
            problem = f"the connection ended after {received} of {step.size} bytes"
        except NoAnswer as error:
            problem = f"after {received} of {step.size} bytes: {error}"
        if received > before:
            waits = pauses(patience)
        if received < step.size:
            pause = next(waits, None)
            if pause is None:
                raise StepFailed(f"the image {step.url} could not be downloaded: {problem}")
            sleep(pause)


def once(head: Head, step: Step, offset: int) -> Iterator[bytes]:
    connection = head.connection()
    try:
        connection.request("GET", step.url, headers={"Range": f"bytes={offset}-"} if offset else {})
        answer = connection.getresponse()
        check_answer(answer, step, offset)
        left = step.size - offset
        while left and (piece := answer.read(min(CHUNK, left))):
            left -= len(piece)
            yield piece
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(str(error) or type(error).__name__) from error
    finally:
        connection.close()


def check_answer(answer: http.client.HTTPResponse, step: Step, offset: int) -> None:
    if answer.status in COME_BACK:
        raise NoAnswer(f"the head node answers {answer.status} {answer.reason}")
    if answer.status in (404, 410):
        when = f" any more, after {offset} bytes were read" if offset else ""
        raise StepFailed(f"the image {step.url} is not on the head node{when}")
    if answer.status != (206 if offset else 200):
        raise StepFailed(f"the image {step.url} could not be downloaded: the head node answers {answer.status}")
    length = answer.getheader("Content-Length") or ""
    if length.isdigit() and int(length) != step.size - offset:
        raise StepFailed(
            f"the image {step.url} has {int(length) + offset} bytes on the head node, and the plan says {step.size}"
        )
