"""Burn-in: work for a while with whatever programs are there, and watch the temperatures. Results are checks."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .programs import Said, ask, installed
from .result import Check, check

EVERY = 10.0
MOST_SAMPLES = 360
BOGO = re.compile(r"stress-ng: (?:metrc|info):\s+\[\d+\] (cpu|vm)\s+(\d+)\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+([\d.]+)")
BANDWIDTH = re.compile(r"# Avg bus bandwidth\s*:\s*([\d.]+)")


# What each says at its end when all went well; an answer without it was cut off.
WELL = {
    "stress-ng": re.compile(r"successful run completed"),
    "dcgmi": re.compile(r"\|\s*Pass\b"),
    "gpu_burn": re.compile(r"GPU \d+: OK"),
    "all_reduce_perf": BANDWIDTH,
}
# DCGM's tables say "Fail"; stress-ng's good ending says "failed: 0".
WRONG = re.compile(r"\bFAIL(?:ED)?\b|\|\s*Fail\b|FAULTY|errors: [1-9]")


def programs(seconds: int, gpus: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Name → command, for what is installed."""
    known = {
        "stress-ng": ["stress-ng", "--cpu", "0", "--vm", "2", "--vm-bytes", "60%", "--verify", "--metrics-brief",
                      "--timeout", f"{seconds}s"],
        "dcgmi": ["dcgmi", "diag", "-r", "3"],
        "gpu_burn": ["gpu_burn", str(seconds)],
        "all_reduce_perf": ["all_reduce_perf", "-b", "8", "-e", "1G", "-f", "2", "-g", str(max(1, gpus))],
    }  # fmt: skip
    for name, argv in known.items():
        if installed(name):
            yield name, argv


def run(seconds: int, ask: Callable[[list[str], float], Said] = ask) -> list[Check]:
    chosen = list(programs(seconds))
    if not chosen:
        return [check("burn-in", False, "none of stress-ng, dcgmi, gpu_burn and all_reduce_perf is installed")]
    share = max(10, seconds // len(chosen))
    # NCCL's tests take one GPU unless they are told how many there are.
    gpus = ask(["nvidia-smi", "-L"], 60.0).text.count("GPU ")
    found: list[Check] = []
    with Watching() as watching:
        for name, argv in programs(share, gpus):
            found.append(judged(name, ask(argv, share + 900), share))
    return [*found, heat(watching.samples)]


def judged(name: str, said: Said, seconds: int) -> Check:
    text = said.text + said.error
    numbers = {f"{kind}_ops": float(rate) for kind, _, rate in BOGO.findall(text)}
    if bandwidth := BANDWIDTH.search(text):
        numbers["bus_gb_per_s"] = float(bandwidth[1])
    bad = not said.ok or bool(WRONG.search(text)) or not WELL[name].search(text)
    last = " / ".join(line.strip() for line in text.strip().splitlines()[-2:])[-200:]
    return check(f"burn-in {name}", not bad, f"{seconds} s: {last or ('well' if not bad else 'no word')}", **numbers)


def heat(samples: list[tuple[float, Mapping[str, float]]]) -> Check:
    """The course of all temperatures, for the plot."""
    highest = max((value for _, values in samples for value in values.values()), default=0.0)
    series = {name: [round(values.get(name, 0), 1) for _, values in samples] for name in sorted(names(samples))}
    times = [round(at) for at, _ in samples]
    return check("burn-in heat", True, f"at most {highest:.0f} °C", highest=highest, times=times, series=series)


def names(samples: list[tuple[float, Mapping[str, float]]]) -> set[str]:
    return {name for _, values in samples for name in values}


class Watching:
    """Reads temperatures beside the work."""

    def __init__(self, every: float = EVERY) -> None:
        self.samples: list[tuple[float, Mapping[str, float]]] = []
        self._every = every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watching":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _watch(self) -> None:
        begun = time.monotonic()
        while True:
            self.samples.append((time.monotonic() - begun, temperatures()))
            # A long night becomes coarser, not larger.
            if len(self.samples) > MOST_SAMPLES:
                self.samples = self.samples[::2]
                self._every *= 2
            if self._over.wait(self._every):
                return


def temperatures() -> dict[str, float]:
    found: dict[str, float] = {}
    for sensor in sorted(Path("/sys/class/hwmon").glob("hwmon*/temp1_input")):
        try:
            name = (sensor.parent / "name").read_text().strip()
            found[f"{name} {sensor.parent.name[5:]}"] = int(sensor.read_text()) / 1000
        except (OSError, ValueError):
            continue
    said = ask(["nvidia-smi", "--query-gpu=index,temperature.gpu", "--format=csv,noheader,nounits"], 30)
    for line in said.text.splitlines() if said.ok else ():
        index, _, value = line.partition(",")
        if value.strip().isdigit():
            found[f"GPU {index.strip()}"] = float(value)
    return found
