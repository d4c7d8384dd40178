"""How fast is power status of many BMCs? Run by hand, as root: python bench/bmc_fanout.py [--bmcs 500] [--runs 50]

Starts that many real BMC simulators on loopback addresses and asks all of them with our engine (cold: log in, ask,
log out; warm: sessions open), with FreeIPMI's ipmipower, with ipmitool under xargs, and with bare pyghmi; then again
with a tenth of the BMCs silent. All in one run on one machine, so the ratios can be compared; seconds cannot.
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
from pathlib import Path

from headnode.lab.bmc import LabBmc, simulators
from ipmi.faults import BmcFault
from ipmi.ipmi_driver import IpmiBmc
from ipmi.readings import Credentials
from ipmi.rmcp.crypto import SUITE_3, SUITES, Suite
from ipmi.rmcp.engine import Engine

PASSWORD = "bench-only"
ROUNDS = 9
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bmcs", type=int, default=500)
    parser.add_argument("--runs", type=int, default=50, help="runs of our engine that must not hang")
    parser.add_argument("--skip-slow", action="store_true", help="leave ipmitool and pyghmi out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, cluster(arguments.bmcs, Path(place)) as addresses:
        silent = [address.replace("127.30.", "127.31.") for address in addresses[::10]]
        mixed = [address for number, address in enumerate(addresses) if number % 10] + silent
        conf = Path(place) / "freeipmi.conf"
        conf.write_text(
            f"username admin\npassword {PASSWORD}\ndriver-type LAN_2_0\ncipher-suite-id 3\n"
            "workaround-flags opensesspriv\n"
        )
        conf.chmod(0o600)
        compare(addresses, mixed, conf, arguments.skip_slow)
        endurance(mixed, arguments.runs)


@contextmanager
def cluster(count: int, place: Path) -> Iterator[list[str]]:
    bmcs = [LabBmc(f"n{n}", f"127.30.{n // 200}.{n % 200 + 1}", PASSWORD, sensors=()) for n in range(count)]
    made = simulators(bmcs, place)
    try:
        for simulator in made:
            simulator.start()
        for simulator in made:
            simulator.wait_ready()
        yield [bmc.address for bmc in bmcs]
    finally:
        for simulator in made:
            simulator.stop()


def compare(addresses: Sequence[str], mixed: Sequence[str], conf: Path, skip_slow: bool) -> None:
    alive = len(addresses) - len(addresses[::10])
    first, cold, warm, peer = [], [], [], []
    for _ in range(ROUNDS):
        peer.append(clock(lambda: ipmipower(addresses, conf), len(addresses)))
        first.append(asyncio.run(ours(addresses, suites=SUITES))[0])
        one_cold, one_warm = asyncio.run(ours(addresses))
        cold.append(one_cold)
        warm.append(one_warm)
    base = statistics.median(peer)
    show("ipmipower", base, base)
    show("headnode, first contact", statistics.median(first), base)
    show("headnode, cold", statistics.median(cold), base, "at most 1.0")
    show("headnode, warm", statistics.median(warm), base, "at most 0.25")
    if not skip_slow:
        show("pyghmi, one process", clock(lambda: pyghmi(addresses), len(addresses)), base)
        show("ipmitool, xargs -P16", clock(lambda: ipmitool(addresses, conf.with_name("pw")), len(addresses)), base)
    print(f"-- {len(mixed) - alive} of {len(mixed)} silent --")
    silent_peer = clock(lambda: ipmipower(mixed, conf), alive)
    show("ipmipower", silent_peer, silent_peer)
    show("headnode, cold", asyncio.run(ours(mixed, alive))[0], silent_peer, "at most 0.4")
    tuned = ["--session-timeout=3000", "--retransmission-timeout=500"]
    show("ipmipower, tuned to 3 s", clock(lambda: ipmipower(mixed, conf, tuned), alive), silent_peer)


def show(what: str, seconds: float, base: float, aim: str = "") -> None:
    print(f"{what:28} {seconds:8.3f} s   {seconds / base:6.2f} x" + (f"   (aim: {aim})" if aim else ""), flush=True)


def clock(work: Callable[[], int], expected: int) -> float:
    begun = time.perf_counter()
    found = work()
    took = time.perf_counter() - begun
    if found != expected:
        print(f"   note: {found} of {expected} answered the next program")
    return took


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


def endurance(mixed: Sequence[str], runs: int) -> None:
    """A run that takes far longer than one deadline is a hang, whatever it does later."""
    alive = len(mixed) - len(mixed) // 10
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        asyncio.run(asyncio.wait_for(ours(mixed, alive), 60))
        times.append(time.perf_counter() - begun)
    if times:
        print(f"{runs} runs with a tenth silent: slowest {max(times):.2f} s, median {statistics.median(times):.2f} s")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("BMCs listen on port 623: run as root")
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    main()
