"""headnode-bmc as a process: questions over its socket, consoles, health, metrics, and what a kill leaves behind."""

import asyncio
import dataclasses
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from headnode import bmclink
from headnode.paths import Paths
from headnode.workflows import init
from ipmi.recording import Kind, Record, read
from tests.conftest import GIVEN
from tests.integration.bmc_site import CANARY, BmcSite, Daemon, SerialLine, bmc_site, daemon, enrol, eventually
from tests.support import HEADNODE, headnode

pytestmark = [pytest.mark.integration, pytest.mark.root, pytest.mark.program("ipmi_sim", "ipmitool")]


@pytest.fixture
def line() -> Iterator[SerialLine]:
    with closing(SerialLine()) as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, line: SerialLine) -> Iterator[BmcSite]:
    with bmc_site(tmp_path, 3, serial_ports=[line.port]) as made:
        yield made


@pytest.fixture
def running(site: BmcSite) -> Iterator[Daemon]:
    with daemon(site.root) as made:
        yield made


def recorded(site: BmcSite, name: str = "gpu01") -> bytes:
    return b"".join(record.data for record in read(site.paths.consoles / name) if record.kind is Kind.DATA)


def hearing(site: BmcSite, name: str = "gpu01") -> bool:
    """Whether the console is open now, told by what Prometheus is told."""
    return f'headnode_console_up{{node="{name}"}} 1.0' in metrics(site)


def metrics(site: BmcSite) -> str:
    with site.context() as context, urllib.request.urlopen(f"http://127.0.0.1:{context.site.bmc.port}/metrics") as page:
        return str(page.read().decode())


def test_commands_use_its_open_sessions(site: BmcSite, running: Daemon) -> None:
    assert site.headnode("power", "on", "gpu[01-02]").out == "gpu[01-02]: on\n"
    assert site.headnode("power", "status", "gpu[01-03]").out == "gpu[01-02]: on\ngpu03: off\n"
    began = time.monotonic()
    answers = site.answers("power", "status", "gpu[01-03]")
    assert time.monotonic() - began < 2
    assert all(answer["seconds"] < 0.5 for answer in answers.values())
    assert len(json.loads(site.headnode("sensors", "gpu03", "-o", "json").out)) == 7
    assert site.headnode("bmc", "set-password", "gpu03", "--random", "--yes").out == "gpu03: changed\n"
    assert site.headnode("power", "status", "gpu03").out == "gpu03: off\n"
    assert site.paths.bmc_socket.stat().st_mode & 0o777 == 0o600


def test_it_says_what_a_command_without_it_says(site: BmcSite) -> None:
    headnode(site.root, "enroll", "gpu04", "--mac", "52:54:00:aa:00:44", "--profile", "gpu", "--yes")
    site.headnode("set", "gpu02", "groups=a100", "locked=true", "--yes")
    questions = [
        ["power", "status", nodeset, *more]
        for nodeset in ("gpu[01-03]", "@a100", "@all", "gpu0?", "gpu[03-05]", "@nobody", "gpu[1-", "nix", "gpu04", "")
        for more in ([], ["-o", "name"])
    ]
    questions += [["sensors", "gpu01", "-o", "csv"], ["sel", "gpu09"], ["power", "off", "gpu02", "--yes"]]
    alone = [site.headnode(*question) for question in questions]
    assert {result.code for result in alone} == {0, 1, 2}
    with daemon(site.root):
        for question, without in zip(questions, alone, strict=True):
            assert site.headnode(*question) == without, question


def test_it_follows_the_inventory(site: BmcSite, running: Daemon) -> None:
    site.headnode("retire", "gpu03", "--yes")
    with bmclink.connected(site.paths) as connection:
        assert connection is not None
        (status,) = bmclink.ask(connection, {"verb": "status"})
    assert status["bmcs"] == 2


def test_the_console_is_recorded_and_typed_on(site: BmcSite, running: Daemon, line: SerialLine) -> None:
    eventually(lambda: hearing(site))
    line.say("Linux version 6.1.0\r\nwelcome to gpu01\r\ngpu01 login: ")
    eventually(lambda: b"gpu01 login: " in recorded(site))
    seen = conversation(site, b"root\r~?~.")
    assert "welcome to gpu01" in seen  # scrollback first
    assert "~. leaves" in seen
    assert "leave the console" in seen
    assert "left the console" in seen
    assert eventually(lambda: line.typed) == b"root\r"
    eventually(lambda: len(site.events("console.phase", "gpu01")) == 2)
    assert site.events("console.phase", "gpu01") == ["console: its kernel starts", "console: it shows a login prompt"]
    found = site.headnode("console", "gpu[01-03]", "--grep", "wel.*gpu")
    assert re.fullmatch(r"\S+Z gpu01: welcome to gpu01\n", found.out)
    assert site.headnode("console", "gpu01", "--grep", "login: *$").out.endswith(" gpu01: gpu01 login:\n")
    for mistaken in (["--follow"], ["--since", "2h"], ["--grep", "x", "--replay"]):
        assert site.headnode("console", "gpu01", *mistaken).code == 2
    began = time.monotonic()
    replay = site.headnode("console", "gpu01", "--replay", "--since", "1h", "--speed", "1000")
    assert "welcome to gpu01" in replay.out
    assert time.monotonic() - began < 3


def conversation(site: BmcSite, keys: bytes) -> str:
    """A person at a real terminal: waits for the console, types, and leaves."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*HEADNODE, "console", "gpu01"], env={**os.environ, "HEADNODE_ROOT": str(site.root)},
        stdin=child, stdout=child, stderr=child, start_new_session=True,
    )  # fmt: skip
    os.close(child)
    seen = b""
    sent = False
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            seen += os.read(parent, 65536)
        except OSError:
            break
        if not sent and b"leaves" in seen:
            os.write(parent, keys)
            sent = True
    os.close(parent)
    assert process.wait(10) == 0, seen
    return seen.decode()


def test_one_writer_unless_all_share(site: BmcSite, running: Daemon, line: SerialLine) -> None:
    eventually(lambda: hearing(site))

    def opened(connection: socket.socket | None, **more: bool) -> dict[str, Any]:
        assert connection is not None
        bmclink.say(connection, {"verb": "console", "node": "gpu01", "who": "ann", "write": True, **more})
        return dict(json.loads(connection.makefile("rb").readline()))

    with bmclink.connected(site.paths) as one, bmclink.connected(site.paths) as two:
        assert opened(one)["typing"] is True
        refused = opened(two)
        assert refused["typing"] is False
        assert "ann #1 is typing" in refused["why_not"]
    with bmclink.connected(site.paths) as one, bmclink.connected(site.paths) as two:
        eventually(lambda: opened(one, share=True)["typing"])
        assert opened(two, share=True)["typing"] is True


def test_health_becomes_history_events_and_metrics(site: BmcSite, running: Daemon) -> None:
    eventually(lambda: 'headnode_sensor{node="gpu01",sensor="Inlet Temp"' in metrics(site))
    known = site.paths.sensors / "gpu01/known.json"
    eventually(lambda: known.exists() and json.loads(known.read_text())["entries"] is not None)
    site.simulator.control("sensor_set_value 0x20 0 1 44 1")
    eventually(lambda: site.events("sensor", "gpu01"), 15)
    assert site.events("sensor", "gpu01")[0].startswith("Inlet Temp is critical at 44")
    eventually(lambda: site.events("sel", "gpu01"), 15)
    assert 'headnode_sensor_bad{node="gpu01",sensor="Inlet Temp"} 2.0' in metrics(site)
    running.kill()
    running.start()
    time.sleep(3)
    assert len(site.events("sensor", "gpu01")) == 1, "a restart repeats no event"
    site.simulator.control("sensor_set_value 0x20 0 1 24 1")
    eventually(lambda: len(site.events("sensor", "gpu01")) == 2, 15)
    assert "well again" in site.events("sensor", "gpu01")[1]
    lines = next((site.paths.sensors / "gpu01").glob("raw-*.csv")).read_text().splitlines()
    assert lines[0].startswith('#["Inlet Temp"')


def test_a_kill_leaves_a_marked_gap_and_recording_goes_on(site: BmcSite, running: Daemon, line: SerialLine) -> None:
    """How long the gap is, bench/consoles.py measures: with 200 consoles, on a machine with nothing else to do."""
    eventually(lambda: hearing(site))
    line.say("before the kill\r\n")
    eventually(lambda: b"before the kill" in recorded(site))
    running.kill()
    running.start()
    directory = site.paths.consoles / "gpu01"

    def marks() -> list[Record]:
        return [record for record in read(directory) if record.kind is Kind.HEARING]

    eventually(marks, 60)
    assert "deaf from" in marks()[-1].text
    line.say("after the kill\r\n")
    eventually(lambda: b"after the kill" in recorded(site))


def test_a_browser_needs_a_ticket_and_it_works_once(site: BmcSite, running: Daemon, line: SerialLine) -> None:
    eventually(lambda: hearing(site))
    line.say("scrollback\r\n")
    eventually(lambda: b"scrollback" in recorded(site))
    with bmclink.connected(site.paths) as connection:
        assert connection is not None
        (given,) = bmclink.ask(connection, {"verb": "ticket", "node": "gpu01", "who": "ann", "write": True})
    base = f"ws://127.0.0.1:{given['port']}/console"

    async def browse() -> None:
        for wrong in (f"{base}/gpu02?ticket=x", f"{base}/gpu01"):
            with pytest.raises(InvalidStatus):
                await connect(wrong)
        async with connect(f"{base}/gpu01?ticket={given['ticket']}") as browser:
            assert json.loads(await browser.recv())["typing"] is True
            assert b"scrollback" in await browser.recv()
            await browser.send(b"hello\r")
            await asyncio.to_thread(eventually, lambda: line.typed == b"hello\r")
            line.say("and hello to you")
            assert b"and hello to you" in await browser.recv()
        with pytest.raises(InvalidStatus):
            await connect(f"{base}/gpu01?ticket={given['ticket']}")

    asyncio.run(browse())


def test_the_password_is_nowhere(site: BmcSite, running: Daemon, tmp_path: Path) -> None:
    """Not in what processes show of themselves, logs, events, answers, or a core dump."""
    eventually(lambda: hearing(site))
    said = [site.headnode(*words).out for words in (
        ("power", "status", "gpu[01-03]", "-o", "json"), ("bmc", "show", "gpu01", "-o", "json"),
        ("sensors", "gpu01", "-o", "json"), ("events", "-o", "json"), ("show", "gpu01", "-o", "json"),
    )]  # fmt: skip
    said.append(Path(f"/proc/{running.process.pid}/cmdline").read_text())
    said.append(Path(f"/proc/{running.process.pid}/environ").read_text())
    said.append(metrics(site))
    limits = Path(f"/proc/{running.process.pid}/limits").read_text()
    assert re.search(r"Max core file size\s+0\s+0", limits)
    os.kill(running.process.pid, signal.SIGABRT)
    running.process.wait()
    said.append(running.log.read_text())
    for text in said:
        assert CANARY not in text
    simulator = tmp_path / "sim"
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_relative_to(simulator):
            assert CANARY.encode() not in path.read_bytes(), path
    running.start()


def test_a_command_that_asks_for_itself_leaves_no_core(site: BmcSite) -> None:
    code = (
        "import sys, os, re; from pathlib import Path; from tests.support import headnode;"
        f"headnode(Path({str(site.root)!r}), 'power', 'status', 'gpu01');"
        "print(re.search(r'Max core file size.*', Path('/proc/self/limits').read_text())[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search(r"size\s+0\s+0", done.stdout)


def test_whoever_hangs_up_leaves_those_whose_turn_has_not_come_as_they_are(site: BmcSite, running: Daemon) -> None:
    with bmclink.connected(site.paths) as connection:
        assert connection is not None
        later = {"verb": "power", "action": "on", "names": ["gpu01", "gpu02"], "starts": {"gpu02": 2.0}}
        bmclink.say(connection, later)
        eventually(lambda: site.machines["gpu01"].on)
    time.sleep(3)
    assert not site.machines["gpu02"].on


def test_without_the_management_address_it_waits_and_says_so(tmp_path: Path) -> None:
    root = tmp_path / "root"
    init.create(Paths(root), dataclasses.replace(GIVEN, management=IPv4Network("10.99.0.0/16")))
    enrol(root, ["10.99.0.1"])
    alone = headnode(root, "power", "status", "gpu01")
    assert (alone.code, "10.99.255.254" in alone.err) == (1, True)
    process = subprocess.Popen([sys.executable, "-m", "headnode.bmcd"], env={**os.environ, "HEADNODE_ROOT": str(root)})
    try:
        eventually(Paths(root).bmc_socket.exists, 20)
        eventually(lambda: "10.99.255.254" in headnode(root, "power", "status", "gpu01").err)
        assert process.poll() is None
    finally:
        process.terminate()
        assert process.wait(10) == 0
