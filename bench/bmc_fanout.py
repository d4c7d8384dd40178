"""How fast is power status of many BMCs? Run by hand, as root: python bench/bmc_fanout.py [--bmcs 500] [--runs 50]

Starts that many real BMC simulators on loopback addresses, enrols them in a site of its own, and asks all of them with
the command `headnode power status` (cold: nothing of Headnode runs; warm: through a running headnode-bmc), with
FreeIPMI's ipmipower, with ipmitool under xargs, and with bare pyghmi; then again with a tenth of the BMCs silent. The
engine behind the command is timed by itself too. All in one run on one machine, so the ratios can be compared; seconds
cannot.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from ClusterShell.NodeSet import NodeSet

from headnode import vault
from headnode.lab.bmc import LabBmc, simulators
from headnode.paths import Paths
from headnode.workflows import enroll, init
from headnode.workflows.context import Context
from headnode.workflows.sheet import Row
from ipmi.faults import BmcFault
from ipmi.ipmi_driver import IpmiBmc
from ipmi.readings import Credentials
from ipmi.rmcp.crypto import SUITE_3, SUITES, Suite
from ipmi.rmcp.engine import Engine

PASSWORD = "bench-only"
ROUNDS = 9
HEADNODE = Path(sys.executable).with_name("headnode")
# A run that takes far longer than one deadline of 3 s is a hang, whatever it does later.
HANG = 60
PYGHMI = """
import os, sys
from pyghmi.ipmi import command
hosts = sys.stdin.read().split()
done = {}
def ready(result, host):
    done[host] = 'failed' if 'error' in result else result
def logged_in(result, bmc):
    if 'error' in result:
        done[bmc.bmc] = 'failed'
    else:
        bmc.ipmi_session.raw_command(netfn=0, command=1, callback=lambda said: ready(said, bmc.bmc))
bmcs = [command.Command(host, b'admin', b'bench-only', onlogon=logged_in, keepalive=False) for host in hosts]
while len(done) < len(hosts):
    command.session.Session.wait_for_rsp(timeout=1)
print(sum(value != 'failed' for value in done.values()), flush=True)
os._exit(0)  # its own logging out at exit waits for a minute
"""


@dataclass(frozen=True)
class Bench:
    """The BMCs by address for other programs, and by node set for ours; the same ones in both."""

    root: Path
    conf: Path
    live: Sequence[str]
    mixed: Sequence[str]

    @property
    def live_set(self) -> str:
        return f"gpu[001-{len(self.live):03}]"

    @property
    def mixed_set(self) -> str:
        return f"gpu[001-{self.answering:03}],dead[001-{len(self.mixed) - self.answering:03}]"

    @property
    def answering(self) -> int:
        return len(self.mixed) - len(self.live) // 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bmcs", type=int, default=500)
    parser.add_argument("--runs", type=int, default=50, help="runs of the command that must not hang")
    parser.add_argument("--skip-slow", action="store_true", help="leave ipmitool and pyghmi out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, cluster(arguments.bmcs, Path(place)) as bench:
        base = cold_rows(bench)
        warm_rows(bench, base)
        if not arguments.skip_slow:
            slow_rows(bench, base)
        silent_rows(bench)
        endurance(bench, arguments.runs)


@contextmanager
def cluster(count: int, place: Path) -> Iterator[Bench]:
    live = [f"127.30.{n // 200}.{n % 200 + 1}" for n in range(count)]
    silent = [f"127.31.{n // 200}.{n % 200 + 1}" for n in range(count // 10)]
    made = simulators([LabBmc(f"n{n}", at, PASSWORD, sensors=()) for n, at in enumerate(live)], place)
    make_site(place / "root", live, silent)
    conf = place / "freeipmi.conf"
    conf.touch(0o600)
    conf.write_text(
        f"username admin\npassword {PASSWORD}\ndriver-type LAN_2_0\ncipher-suite-id 3\nworkaround-flags opensesspriv\n"
    )
    try:
        for simulator in made:
            simulator.start()
        for simulator in made:
            simulator.wait_ready()
        yield Bench(place / "root", conf, live, [*live[: count - len(silent)], *silent])
    finally:
        for simulator in made:
            simulator.stop()


def make_site(root: Path, live: Sequence[str], silent: Sequence[str]) -> None:
    given = init.Proposal("bench", "bench.test", provision_interface="hnprov0", management_interface="hnmgmt0",
                          management=IPv4Network("127.30.0.0/15"))  # fmt: skip
    init.create(Paths(root), given)
    context = Context(Paths(root), "bench", "bench")
    nodes = [
        *((f"gpu{n:03}", at) for n, at in enumerate(live, 1)),
        *((f"dead{n:03}", at) for n, at in enumerate(silent, 1)),
    ]
    rows = [
        Row("bench", {"name": name, "mac": f"52:54:00:aa:{n >> 8:02x}:{n & 255:02x}", "bmc": at, "profile": "gpu"})
        for n, (name, at) in enumerate(nodes)
    ]
    enroll.enroll(context, rows, vault.seal(PASSWORD, context.paths.secret_key))
    context.close()


def cold_rows(bench: Bench) -> float:
    first, cold, warm, peer, command, floor = [], [], [], [], [], []
    everybody = len(bench.live)
    for _ in range(ROUNDS):
        peer.append(clock(lambda: ipmipower(bench.live, bench.conf), everybody))
        command.append(clock(lambda: power_status(bench, bench.live_set), everybody))
        first.append(asyncio.run(ours(bench.live, suites=SUITES))[0])
        one_cold, one_warm = asyncio.run(ours(bench.live))
        cold.append(one_cold)
        warm.append(one_warm)
        floor.append(clock(lambda: version(bench), 0))
    base = statistics.median(peer)
    show("ipmipower", base, base)
    show("headnode power status, cold", statistics.median(command), base, "at most 1.0")
    show("  headnode --version", statistics.median(floor), base)
    show("  engine, first contact", statistics.median(first), base)
    show("  engine, cold", statistics.median(cold), base)
    show("  engine, warm", statistics.median(warm), base)
    return base


def warm_rows(bench: Bench, base: float) -> None:
    with daemon(bench):
        took = [clock(lambda: power_status(bench, bench.live_set), len(bench.live)) for _ in range(ROUNDS * 3)]
        show("headnode power status, warm", statistics.median(took), base, "at most 0.25")
    again = [clock(lambda: ipmipower(bench.live, bench.conf), len(bench.live)) for _ in range(ROUNDS)]
    show("ipmipower again", statistics.median(again), base)


def slow_rows(bench: Bench, base: float) -> None:
    show("pyghmi, one process", clock(lambda: pyghmi(bench.live), len(bench.live)), base)
    password = bench.conf.with_name("pw")
    show("ipmitool, xargs -P16", clock(lambda: ipmitool(bench.live, password), len(bench.live)), base)


def silent_rows(bench: Bench) -> None:
    print(f"-- {len(bench.mixed) - bench.answering} of {len(bench.mixed)} silent --")
    base = clock(lambda: ipmipower(bench.mixed, bench.conf), bench.answering)
    show("ipmipower", base, base)

    def command() -> int:
        return power_status(bench, bench.mixed_set)

    cold = statistics.median(clock(command, bench.answering) for _ in range(3))
    show("headnode power status, cold", cold, base, "at most 0.4")
    with daemon(bench):
        warm = statistics.median(clock(command, bench.answering) for _ in range(3))
    show("headnode power status, warm", warm, base, "at most 0.4")
    show("  engine, cold", asyncio.run(ours(bench.mixed, bench.answering))[0], base)
    tuned = ["--session-timeout=3000", "--retransmission-timeout=500"]
    show("ipmipower, tuned to 3 s", clock(lambda: ipmipower(bench.mixed, bench.conf, tuned), bench.answering), base)


def show(what: str, seconds: float, base: float, aim: str = "") -> None:
    print(f"{what:28} {seconds:8.3f} s   {seconds / base:6.2f} x" + (f"   (aim: {aim})" if aim else ""), flush=True)


def clock(work: Callable[[], int], expected: int) -> float:
    begun = time.perf_counter()
    found = work()
    took = time.perf_counter() - begun
    if found != expected:
        print(f"   note: {found} of {expected} answered the next program")
    return took


def headnode(bench: Bench, *words: str) -> str:
    environment = {**os.environ, "HEADNODE_ROOT": str(bench.root)}
    done = subprocess.run(
        [HEADNODE, *words], env=environment, capture_output=True, text=True, timeout=HANG, check=False
    )
    return done.stdout


def version(bench: Bench) -> int:
    return headnode(bench, "--version").count(": off")


def power_status(bench: Bench, nodeset: str) -> int:
    """How many were said to be off; the output is folded, as a person reads it."""
    lines = [line.split(": ") for line in headnode(bench, "power", "status", nodeset).splitlines()]
    return sum(len(NodeSet(names)) for names, status in lines if status == "off")


@contextmanager
def daemon(bench: Bench) -> Iterator[None]:
    """headnode-bmc, once every BMC has answered it: from then on its sessions are open."""
    environment = {**os.environ, "HEADNODE_ROOT": str(bench.root)}
    command = [sys.executable, "-m", "headnode.bmcd"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + HANG
        while power_status(bench, bench.live_set) < len(bench.live) or not Paths(bench.root).bmc_socket.exists():
            if time.monotonic() > deadline:
                sys.exit("headnode-bmc did not reach every BMC")
            time.sleep(0.5)
        # The first look at every BMC's health comes soon after the start; what is asked for is every day after that.
        time.sleep(10)
        yield
    finally:
        process.terminate()
        process.wait(30)


async def ours(
    addresses: Sequence[str], expected: int | None = None, suites: tuple[Suite, ...] = (SUITE_3,)
) -> tuple[float, float]:
    """Cold with logging out at the end, as a command would; and the median of three with sessions open.

    ipmipower is told the cipher suite, so we are too; at first contact, suite 17 is tried and refused before.
    """
    begun = time.perf_counter()
    async with Engine("127.0.0.1") as engine:
        bmcs = [
            IpmiBmc(await engine.link(address, Credentials("admin", PASSWORD), suites=suites)) for address in addresses
        ]
        found = sum(await asyncio.gather(*map(is_off, bmcs)))
        asked = time.perf_counter()
        warm = []
        for _ in range(3):
            again = time.perf_counter()
            await asyncio.gather(*map(is_off, bmcs))
            warm.append(time.perf_counter() - again)
        closing = time.perf_counter()
    if found != (expected or len(addresses)):
        print(f"   note: {found} of {expected or len(addresses)} answered us")
    return asked - begun + time.perf_counter() - closing, statistics.median(warm)


async def is_off(bmc: IpmiBmc) -> bool:
    try:
        return await bmc.power() == "off"
    except BmcFault:
        return False


def ipmipower(addresses: Sequence[str], conf: Path, options: Sequence[str] = ()) -> int:
    command = ["ipmipower", "--config-file", str(conf), "-h", ",".join(addresses), "--stat", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.count(": off")


def ipmitool(addresses: Sequence[str], password: Path) -> int:
    password.write_text(PASSWORD)
    command = ["xargs", "-P16", "-I@", "ipmitool", "-I", "lanplus", "-C", "3", "-H", "@", "-U", "admin"]
    done = subprocess.run(
        [*command, "-f", str(password), "power", "status"],
        input="\n".join(addresses),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.count("is off")


def pyghmi(addresses: Sequence[str]) -> int:
    """In a child with a limit: it is known to hang."""
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PYGHMI],
            input="\n".join(addresses),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0
    return int(done.stdout.strip() or 0)


def endurance(bench: Bench, runs: int) -> None:
    """Without headnode-bmc, and with a tenth silent: the hardest of the ways. A hang ends this with an error."""
    times = [clock(lambda: power_status(bench, bench.mixed_set), bench.answering) for _ in range(runs)]
    if times:
        print(f"{runs} runs of the command with a tenth silent: none hung, slowest {max(times):.2f} s, "
              f"median {statistics.median(times):.2f} s")  # fmt: skip


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("BMCs listen on port 623: run as root")
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    main()
