"""Looks at this machine, and has the pure parts judge what is there."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import judge_gpus, judge_machine, nvidia, pci
from .infiniband import parse_ibstat
from .programs import Said, ask, installed
from .result import Check, check
from .storage import parse_mdstat, parse_mounts, parse_swaps

NETWORK = frozenset({"nfs", "nfs4"})
PATIENCE = 10.0
PROC = Path("/proc")
# Where Docker looks for specifications of devices.
CDI = ("/etc/cdi", "/run/cdi")


def everything(expected: Mapping[str, Any]) -> list[Check]:
    """Every check; one that stumbles is a check that did not pass, and hides no other."""
    found: list[Check] = []
    for look in (names, machine, disks, storage, links, infiniband, gpus):
        try:
            found += look(expected)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are worth hearing
            found.append(check(look.__name__, False, f"this check itself failed: {type(error).__name__}: {error}"))
    return found


def names(expected: Mapping[str, Any]) -> Iterator[Check]:
    forward = [words[0] for words in name_server(expected.get("fqdn"))]
    backward = next((words[1] for words in name_server(expected.get("address")) if len(words) > 1), "")
    yield from judge_machine.dns(expected, forward, backward)


def name_server(question: object) -> list[list[str]]:
    """Not what /etc/hosts says: the name server is what everybody else asks."""
    said = ask(["getent", "-s", "hosts:dns", "hosts", str(question)], PATIENCE) if question else Said(None)
    return [line.split() for line in said.text.splitlines() if line.split()]


def machine(expected: Mapping[str, Any]) -> Iterator[Check]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield from judge_machine.memory(expected, total)
    yield from judge_machine.processors(expected, os.cpu_count() or 0)


def disks(expected: Mapping[str, Any]) -> Iterator[Check]:
    said = ask(["lsblk", "--json", "--nodeps", "--output", "NAME,SERIAL"], PATIENCE)
    listed = json.loads(said.text or "{}").get("blockdevices", [])
    yield from judge_machine.disks(expected, [str(disk.get("serial") or "") for disk in listed])


def storage(expected: Mapping[str, Any]) -> Iterator[Check]:
    wanted = {str(path) for path in expected.get("nfs") or ()}
    mounted = network_mounts()
    yield from judge_machine.filesystems(expected, parse_mounts(read(PROC / "self/mounts")))
    yield from judge_machine.swap(expected, parse_swaps(read(PROC / "swaps")))
    yield from judge_machine.raid(expected, parse_mdstat(read(PROC / "mdstat")))
    yield from judge_machine.network_mounts({path: trouble(path, mounted) for path in sorted(wanted)})
    yield from judge_machine.cache(expected, ask(["systemctl", "is-active", "--quiet", "cachefilesd"], PATIENCE).ok)


def network_mounts() -> set[str]:
    return {path for path, mount in parse_mounts(read(PROC / "self/mounts")).items() if mount.kind in NETWORK}


def trouble(path: str, mounted: set[str]) -> str:
    if path not in mounted:
        return "not mounted"
    said = ask(["stat", "--file-system", "--format", "%T", path], PATIENCE)
    return "" if said.ok else f"hangs: {said.error.strip() or 'no answer'}"


def links(expected: Mapping[str, Any]) -> Iterator[Check]:
    found: dict[str, dict[str, Any]] = {}
    for place in Path("/sys/class/net").iterdir():
        mac = read(place / "address").lower()
        # Members of a bond carry its MAC; their own is kept apart.
        own = read(place / "bonding_slave/perm_hwaddr").lower() or mac
        if (place / "device").exists() or own not in found:
            speed = read(place / "speed")
            found[own] = {"name": place.name, "up": read(place / "operstate") in ("up", "unknown"),
                          "speed": int(speed) if speed.lstrip("-").isdigit() else 0}  # fmt: skip
    yield from judge_machine.links(expected, found)


def infiniband(expected: Mapping[str, Any]) -> Iterator[Check]:
    yield from judge_machine.infiniband(expected, parse_ibstat(ask(["ibstat"], 30).text))


def gpus(expected: Mapping[str, Any]) -> Iterator[Check]:
    wanted = expected.get("gpu_count")
    said = ask(["lspci", "-D", "-vvv", "-d", "10de:"], 60)
    devices = pci.parse_lspci(said.text)
    if wanted and not said.ok:
        yield check("gpu pci", False, said.error or "lspci says nothing")
        return
    if not wanted and not devices:
        return
    smi = nvidia_smi() if installed("nvidia-smi") else None
    fabric = ask(["nv-fabricmanager", "--version"], PATIENCE).text if installed("nv-fabricmanager") else ""
    docker = ask(["docker", "info", "--format", "{{json .}}"], 30) if installed("docker") else None
    facts = judge_gpus.GpuFacts(
        devices=devices,
        smi=smi,
        module=read(Path("/proc/driver/nvidia/version")),
        fabric_manager=fabric,
        cuda=cuda() if smi else "",
        links=nvidia.parse_nvlink(ask(["nvidia-smi", "nvlink", "--status"], 60).text) if smi else None,
        xids=tuple(nvidia.parse_xids(ask(["dmesg"], 30).text)),
        docker=docker.text if docker else None,
        cdi=any("nvidia" in file.name for place in CDI for file in Path(place).glob("*.*")),
    )
    yield from judge_gpus.judge(wanted if isinstance(wanted, int) else None, bool(expected.get("driver")), facts)


def nvidia_smi() -> nvidia.Smi:
    said = ask(["nvidia-smi", "-q", "-x"], 120)
    return nvidia.Smi("", (), said.error) if said.code is None else nvidia.parse_smi(said.text or said.error)


def cuda() -> str:
    """In a process of its own, which finds this package as this process did."""
    said: Said = ask(["env", f"PYTHONPATH={':'.join(sys.path)}", sys.executable, "-m", f"{__package__}.cuda"], 120)
    return said.text.strip() or said.error.strip()[-200:] or f"CUDA ended its process with {said.code}"


def read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
