"""Work that takes longer than anybody should wait for an answer: done beside, looked at while it goes on.

Kept in memory: what a job has done is in the inventory, the events and the audit log, whatever becomes of this process.
"""

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headnode.errors import HeadnodeError
from headnode.log import logger
from headnode.workflows.actions import Report

MOST_KEPT = 200
MOST_LINES = 2000


@dataclass
class Job:
    id: str
    title: str
    who: str
    nodes: tuple[str, ...] = ()
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished: datetime | None = None
    error: str = ""
    hint: str = ""
    report: Report = field(default_factory=Report)
    lines: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def say(self, line: str) -> None:
        self.lines.append(line)
        del self.lines[:-MOST_LINES]

    @property
    def state(self) -> str:
        if self.finished is None:
            return "running"
        return "failed" if self.error or any(not answer.ok for answer in self.report.answers.values()) else "done"


@dataclass
class Jobs:
    kept: dict[str, Job] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(
        self,
        title: str,
        who: str,
        work: Callable[[Job], None],
        *,
        nodes: Sequence[str] = (),
        afterwards: Callable[[Job], None] = lambda job: None,
    ) -> Job:
        job = Job(secrets.token_hex(8), title, who, tuple(nodes))
        with self.lock:
            self.kept[job.id] = job
            over = [key for key, old in self.kept.items() if old.finished]
            for key in over[: max(0, len(self.kept) - MOST_KEPT)]:
                del self.kept[key]
        threading.Thread(target=self.work, args=(job, work, afterwards), name=f"job {title}", daemon=True).start()
        return job

    def work(self, job: Job, work: Callable[[Job], None], afterwards: Callable[[Job], None]) -> None:
        try:
            work(job)
        except HeadnodeError as error:
            job.error, job.hint = error.message, error.hint
        except Exception as error:  # noqa: BLE001 - whoever looks at the job is told; the log has the rest
            logger("headnode.web").error("a job failed", job=job.title, reason=repr(error))
            job.error = f"internal error: {type(error).__name__}"
        job.finished = datetime.now(UTC)
        try:
            afterwards(job)
        finally:
            job.over.set()

    def find(self, number: str) -> Job | None:
        return self.kept.get(number)
