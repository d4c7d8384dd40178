"""The steps a plan is made of, as the agent reads them."""

from collections.abc import Sequence
from typing import Any

Step = dict[str, Any]

TARGET = "/target"


def run(name: str, *argv: str, input: str | None = None, destroys: Sequence[str] = ()) -> Step:
    """Run a program in the ramdisk; `destroys` names the devices whose content it overwrites."""
    step: Step = {"name": name, "do": "run", "argv": list(argv), "input": input}
    return {**step, "destroys": list(destroys)} if destroys else step


def chroot(name: str, *argv: str) -> Step:
    """Run a program of the new system, inside it."""
    return {"name": name, "do": "chroot", "argv": list(argv), "target": TARGET}
