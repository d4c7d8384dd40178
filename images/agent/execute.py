"""Carry a plan out, step by step. The first failure ends it, with the step's name and the reason."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import disks
from .errors import StepFailed
from .head import Head
from .inventory import disk_facts
from .plan import Plan, Step
from .report import Reporter
from .runner import must, run
from .stream import Ahead, unpack

BINDS = ("/dev", "/dev/pts", "/proc", "/sys", "/run")
EFIVARS = "/sys/firmware/efi/efivars"


class Execution:
    def __init__(self, plan: Plan, head: Head, reporter: Reporter) -> None:
        self._plan = plan
        self._head = head
        self._reporter = reporter
        self._do: dict[str, Callable[[Step], None]] = {
            "check-disks": self._check_disks,
            "run": self._run,
            "image": self._image,
            "overlay": self._overlay,
            "chroot": self._chroot,
        }
        self._ahead: Ahead | None = None
        self.step = ""

    def run(self) -> None:
        count = len(self._plan.steps)
        images = [step for step in self._plan.steps if step.do == "image"]
        if len(images) == 1:
            self._ahead = Ahead(self._head, images[0])
        for number, step in enumerate(self._plan.steps, 1):
            if step.destroys and self._ahead:
                self.step = images[0].name
                self._ahead.wait_until_begun()
            self.step = step.name
            begun = time.monotonic()
            self._reporter.event("step", f"{number}/{count} {step.name}", step=step.name)
            self._do[step.do](step)
            took = time.monotonic() - begun
            self._reporter.event("step-done", f"{step.name}: done in {took:.1f} s", step=step.name, percent=100.0)

    def _check_disks(self, step: Step) -> None:
        disks.check(self._plan.disks, disk_facts())

    def _run(self, step: Step) -> None:
        must(step.argv, text=step.input, log=self._reporter.log)

    def _chroot(self, step: Step) -> None:
        with system_mounts(step.target):
            must(["chroot", step.target, *step.argv], text=step.input, log=self._reporter.log)

    def _image(self, step: Step) -> None:
        if not Path(step.target).is_mount():
            # Otherwise the image would fill the ramdisk's memory.
            raise StepFailed(f"nothing is mounted at {step.target}, where the image should go")
        last = 0.0

        def progress(received: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= 1 or received == step.size:
                last = now
                self._reporter.event(
                    "progress", "streaming the image", step=step.name,
                    percent=round(100 * received / step.size, 1), size=received, total=step.size,
                )  # fmt: skip

        unpack(self._head, step, progress, ahead=self._ahead)

    def _overlay(self, step: Step) -> None:
        files = self._head.get("/node/v1/overlay").get("files")
        argv = [sys.executable, "-m", f"{__package__}.overlay", step.target]
        output = must(["env", f"PYTHONPATH={package_root()}", *argv], text=json.dumps(files))
        self._reporter.log.write(f"overlay: {output.stdout}")


def package_root() -> str:
    """Where Python finds this package, whatever it is called there."""
    depth = len((__package__ or "").split("."))
    return str(Path(__file__).resolve().parents[depth])


@contextmanager
def system_mounts(target: str) -> Iterator[None]:
    """What programs expect of a running system, inside the new one, for as long as they run."""
    places = [*BINDS, *((EFIVARS,) if Path(EFIVARS).is_mount() else ())]
    mounted: list[str] = []
    try:
        for place in places:
            if Path(place).is_mount():
                where = f"{target}{place}"
                Path(where).mkdir(parents=True, exist_ok=True)
                must(["mount", "--bind", place, where])
                mounted.append(where)
        yield
    finally:
        for where in reversed(mounted):
            if run(["umount", where]).code != 0:
                run(["umount", "--lazy", where])
