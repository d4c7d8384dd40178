"""A cluster in the middle of its day, written through the inventory's own front door."""

import itertools
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headnode import sensorfiles, vault
from headnode.model import BmcAccess, Event, Intent, Nic, Node, Severity, Sighting, State
from headnode.workflows import images
from headnode.workflows.context import Context
from images.signing import signer
from ipmi.recording import Kind, Recording
from tests.integration.bmc_site import LOOPBACK

MANIFEST = {
    "built": "2026-11-02T09:30:00+00:00",
    "kernel": "6.1.0-40-amd64",
    "unpacked_size": 2_411_000_000,
    "recipe": {"os": "debian", "suite": "bookworm"},
}
STATES = [State.UP] * 14 + [State.READY, State.ENROLLED, State.FAILED, State.DEPLOYING, State.MAINTENANCE, State.UP]
REASONS = (
    "deploy: stream image: the connection to the head node was lost after 212 MB",
    "verification failed: gpus: 4 of 8 answer; clock: 340 ms off",
)
HARDWARE: dict[str, Any] = {
    "product": "AS-4125GS-TNRT", "manufacturer": "Supermicro", "serial": "S512345X3A12345", "firmware": "uefi",
    "cpu_model": "AMD EPYC 9354 32-Core Processor", "cpus": 128, "memory_bytes": 1_622_000_000_000,
    "bios_version": "1.4",
    "disks": [
        {"device": "/dev/nvme0n1", "model": "SAMSUNG MZQL2960", "serial": "S64FNE0R500001", "size": 960_197_124_096},
        {"device": "/dev/nvme1n1", "model": "KIOXIA KCD81RUG", "serial": "Y2K0A00JTLX8", "size": 7_681_501_126_656},
    ],
    "gpus": [
        {"address": f"0000:{n:02x}:00.0", "vendor": "10de", "device": "2331", "link_speed": "32.0 GT/s PCIe",
         "link_width": "16"}
        for n in (1, 0x25, 0x41, 0x61, 0x81, 0xa1, 0xc1, 0xe1)
    ],
    "nics": [
        {"name": "eno1", "mac": "52:54:00:aa:00:01", "speed_mbps": 10000, "driver": "ixgbe", "link": True},
        {"name": "ib0", "mac": "00:00:10:87:fe:80", "speed_mbps": 400000, "driver": "mlx5_core", "link": True},
    ],
}  # fmt: skip
CONSOLE = (
    "\x1b[2J\x1b[1;1HBooting from network ...\r\niPXE 1.21 -- Open Source Network Boot Firmware\r\n"
    "http://10.20.0.1/boot ... ok\r\n[    0.000000] Linux version 6.1.0-40-amd64\r\n"
    "[    4.218831] nvidia: loading out-of-tree module taints kernel.\r\n"
    "[    7.091121] EXT4-fs (nvme0n1p5): mounted filesystem\r\n\r\n"
    "Debian GNU/Linux 12 {name} ttyS0\r\n\r\n{name} login: "
)


def node(number: int, state: State, *, password: str | None = None, address: str | None = None) -> Node:
    reason = REASONS[number % len(REASONS)] if state is State.FAILED else None
    deadline = datetime.now(UTC) + timedelta(minutes=40) if state is State.DEPLOYING else None
    return Node(
        f"gpu{number:03}" if number < 1000 else f"gpu{number:05}",
        "login" if number % 50 == 0 else "gpu" if number % 3 else "cpu",
        (Nic(f"52:54:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
             address=f"10.20.{number // 250 + 1}.{number % 250 + 1}"),),
        BmcAccess(address or f"10.21.{number // 250}.{number % 250 + 2}", None, password),
        state=state,
        intent=Intent.DEPLOY if state is State.DEPLOYING else Intent.DISK,
        rack=f"r{number // 40 + 1}",
        position=number % 40 + 1,
        groups=("a100",) if number % 2 else ("h100", "nvlink"),
        phase="verifying" if reason else None,
        reason=reason,
        deadline=deadline,
    )  # fmt: skip


def many(context: Context, count: int) -> None:
    """So many nodes in all the states that there are."""
    states = itertools.cycle(STATES)
    with context.inventory.change("seed", "a seeded site") as change:
        change.add([node(number, next(states)) for number in range(1, count + 1)])


def day(context: Context, existing: Sequence[str] = ()) -> None:
    """Forty more nodes, history, work under way, hardware, sensors, consoles, images, strangers."""
    states = itertools.cycle(STATES)
    sealed = vault.seal("none", context.paths.secret_key)
    new = [node(number, next(states), password=sealed, address=f"{LOOPBACK}.1.{number}") for number in range(10, 56)]
    with context.inventory.change("ada", "headnode enroll --from racks.csv") as change:
        change.add(new)
        change.record_all(
            Event("enroll", f"enrolled as {n.profile} at {n.address}", "ada", "seed", n.name) for n in new
        )
    history(context)
    with context.inventory.change("agent", "seed") as change:
        for number, found in enumerate(change.nodes()):
            if found.state is State.DEPLOYING:
                work = change.start_deployment(found, Intent.DEPLOY, found.deadline or change.now, "gpu@2")
                change.progress(work.id, "stream image", 20 + 13 * number % 75)
            if found.state in (State.UP, State.FAILED):
                change.remember_hardware(found, HARDWARE)
        change.record_seen(strangers())
    add_images(context)
    for name in [*existing, "gpu010", "gpu011", "gpu012"]:
        record(context, name)


def history(context: Context) -> None:
    said = [
        ("deploy", "asked for: deploy of gpu@2", "ada", Severity.INFO),
        ("agent.claimed", "the agent runs and takes up: deploy", "agent", Severity.INFO),
        ("agent.step", "partition disks", "agent", Severity.INFO),
        ("agent.step", "stream image", "agent", Severity.INFO),
        ("sensor", "CPU1 Temp is warning at 88 °C", "headnode-bmc", Severity.WARNING),
        (
            "failed",
            "deploy: stream image: the connection to the head node was lost after 212 MB",
            "agent",
            Severity.ERROR,
        ),
    ]
    with context.inventory.change("seed", "seed") as change:
        nodes = change.nodes()
        for minute, (one, (kind, message, actor, severity)) in enumerate(itertools.product(nodes[-12:], said)):
            at = datetime.now(UTC) - timedelta(minutes=72 - minute)
            change.record_all([Event(kind, message, actor, "deploy 7", one.name, severity, at=at)])


def strangers() -> list[Sighting]:
    now = datetime.now(UTC)
    return [
        Sighting("ac:1f:6b:12:34:56", now - timedelta(hours=3), now - timedelta(minutes=2), "UEFI x86-64", None),
        Sighting("b8:ce:f6:00:11:22", now - timedelta(days=1), now - timedelta(hours=5), "BIOS", None),
    ]


def add_images(context: Context) -> None:
    store = images.store(context)
    store.root.mkdir(parents=True, exist_ok=True)
    for version, libc in enumerate(("2.36-9+deb12u7", "2.36-9+deb12u13"), 1):
        filled = store.root / f".filled-{os.urandom(4).hex()}"
        filled.mkdir()
        (filled / "image.tar.zst").write_bytes(b"\0" * 300_000 * version)
        packages = {
            "bash": "5.2.15-2+b7",
            "libc6": libc,
            "nvidia-driver": f"580.{70 + version}.04-1",
            "openssh-server": "1:9.2",
        }
        if version == 2:
            packages["nvidia-fabricmanager"] = "580.72.04-1"
        listed = [{"name": key, "version": value, "architecture": "amd64"} for key, value in packages.items()]
        (filled / "packages.json").write_text(json.dumps(listed))
        store.publish("gpu", filled, MANIFEST, signer(context.paths.config))
    # Nothing starts it here, but without one no node is told to.
    ramdisk = context.paths.state / "ramdisk/x86_64"
    ramdisk.mkdir(parents=True, exist_ok=True)
    (ramdisk / "initrd").write_bytes(b"")


def record(context: Context, name: str) -> None:
    """Six hours of sensors, and a console that booted a while ago."""
    now = time.time()
    kept = sensorfiles.History(context.paths.sensors / name)
    for step in range(360):
        at = now - 21_600 + step * 60
        warm = 52 + 9 * math.sin(step / 40) + (step % 7) / 3
        values = {"CPU1 Temp": warm, "CPU2 Temp": warm - 3, "Inlet Temp": 24 + math.sin(step / 90),
                  "GPU1 Temp": warm + 14, "FAN1": 5200 + 40 * warm, "FAN2": 5150 + 41 * warm,
                  "PSU Power": 1450 + 21 * warm, "12V": 12.1}  # fmt: skip
        kept.add(sensorfiles.Reading(at, {key: round(value, 1) for key, value in values.items()}))
    clock = itertools.count()
    recording = Recording(context.paths.consoles / name, clock=lambda: now - 600 + next(clock) * 2)
    for line in CONSOLE.format(name=name).splitlines(keepends=True):
        recording.write(Kind.DATA, line.encode())
    recording.close()


def lock(context: Context, name: str) -> None:
    with context.inventory.change("seed", "seed") as change:
        change.replace([replace(found, locked=True) for found in change.nodes([name])])


def tidy(root: Path) -> None:
    """Racks with budgets, so that there is something to stay below."""
    file = root / "etc/headnode/site.yaml"
    budgets = "racks:\n  r1: {budget_watts: 17000, location: row A}\n  r2: {budget_watts: 17000, location: row A}\n"
    file.write_text(file.read_text().replace("racks: {}\n", budgets))
