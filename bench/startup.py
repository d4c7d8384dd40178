"""How long until a command answers? Run by hand: python bench/startup.py

Beside `python -c pass` in the same run, because the machine may be busy.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 15
HEADNODE = [sys.executable, "-m", "headnode"]


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        environment = {**os.environ, "HEADNODE_ROOT": root}
        prepare(Path(root), environment)
        floor = median([sys.executable, "-c", "pass"], environment)
        print(f"python -c pass:              {floor * 1000:6.0f} ms")
        for name, arguments in (
            ("--help", ["--help"]),
            ("nodes of 1,000", ["nodes"]),
            ("nodes gpu0001", ["nodes", "gpu0001"]),
        ):
            took = median([*HEADNODE, *arguments], environment)
            print(f"headnode {name:<19} {took * 1000:6.0f} ms, {took / floor:4.1f} times python -c pass")


def prepare(root: Path, environment: dict[str, str]) -> None:
    rows = [
        f"gpu{i:04d},52:54:00:aa:{i >> 8:02x}:{i & 255:02x},10.21.{i >> 8}.{i & 255},gpu,r{i // 40},{i % 40 + 1}"
        for i in range(1, 1001)
    ]
    (root / "nodes.csv").write_text("\n".join(["name,mac,bmc,profile,rack,position", *rows]) + "\n")
    init = ["init", "--yes", "--cluster", "bench", "--domain", "bench.test", "--provision-interface", "hnprov0",
            "--management-interface", "hnmgmt0"]  # fmt: skip
    for arguments in (init, ["enroll", "--from", str(root / "nodes.csv"), "--yes"]):
        subprocess.run([*HEADNODE, *arguments], env=environment, check=True, capture_output=True)


def median(command: list[str], environment: dict[str, str]) -> float:
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    main()
