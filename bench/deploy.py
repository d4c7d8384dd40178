"""What does our deployment cost beside the least that has to be done? By hand, as root: python -m bench.deploy

The floor is the same image over the same HTTP, through zstd and tar onto the same kind of file system, by a shell line
in the same ramdisk on the same machine. Ours is everything between the agent's claim and its 'done': inventory,
partitions, file systems, the image with its SHA-256, the node's own files, the boot loader, and everything written out.
Both are in one run, because machines differ; the ramdisk's own start is in neither.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from headnode.lab.machine import Firmware
from headnode.lab.qemu import RunningMachine
from headnode.model import Intent, State
from tests.e2e.deployment import NAME, Rack, machine, rack
from tests.integration.boot import HEAD

AIM = 1.2
PREPARE = """
set -e
sfdisk --quiet --wipe always /dev/vda <<END
label: gpt
size=450MiB, type=linux
type=linux
END
udevadm settle
"""
FLOOR = f"""
set -e
mkfs.ext4 -q -F /dev/vda2
mount /dev/vda2 /target
sync
echo begin $(date +%s.%N)
busybox wget -q -O - http://{HEAD}/images/node@1/image.tar.zst | zstd -dcq | tar --extract --directory /target
umount /target
echo end $(date +%s.%N)
"""


def floor(at: Rack, node: RunningMachine, rounds: int) -> list[float]:
    """In the rescue system, which is the same ramdisk."""
    at.begin(Intent.RESCUE)
    node.power_on()
    node.wait_for("ready: log in as root", 400)
    at.ssh(PREPARE)
    times = []
    for _ in range(rounds):
        said = dict(line.split() for line in at.ssh(FLOOR).stdout.splitlines())
        times.append(float(said["end"]) - float(said["begin"]))
        print(f"floor: {times[-1]:.1f} s", flush=True)
    at.ssh("wipefs --all --force --quiet /dev/vda2 /dev/vda")
    node.power_off()
    return times


def ours(at: Rack, node: RunningMachine, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        at.begin()
        node.power_on()
        at.until_state(State.VERIFYING)
        node.power_off()
        times.append(claim_to_done(at))
        at.head.headnode("abort", NAME, "--yes")
        print(f"ours:  {times[-1]:.1f} s ({', '.join(at.longest_steps(6))})", flush=True)
    return times


def claim_to_done(at: Rack) -> float:
    """By the head node's clock, at which both questions came in."""
    claimed, done = at.head.events(NAME, "agent.claimed")[-1].at, at.head.events(NAME, "deployed")[-1].at
    assert claimed is not None
    assert done is not None
    return (done - claimed).total_seconds()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--firmware", choices=["bios", "uefi"], default="bios")
    parser.add_argument("--rounds", type=int, default=2, help="of each; the medians are compared")
    chosen = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, rack(Path(name), "b") as at:
        at.enroll()
        with machine(at, Path(name), Firmware(chosen.firmware)) as node:
            least = statistics.median(floor(at, node, chosen.rounds))
            taken = statistics.median(ours(at, node, chosen.rounds))
    passed = time.monotonic() - begun
    print(f"ours {taken:.1f} s, floor {least:.1f} s: ratio {taken / least:.2f} (aim {AIM}); {passed:.0f} s in all")


if __name__ == "__main__":
    main()
