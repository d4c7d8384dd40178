"""GPUs: what the bus shows, what the driver shows, what was expected, and whether they work. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .nvidia import Smi, parse_version
from .pci import Device
from .result import Check, check, counted


@dataclass(frozen=True)
class GpuFacts:
    devices: list[Device]
    # Nothing when no driver is wanted or installed.
    smi: Smi | None
    module: str = ""
    fabric_manager: str = ""
    cuda: str = ""
    links: Mapping[int, list[bool]] | None = None
    xids: tuple[tuple[str, int], ...] = ()
    docker: str | None = None
    # Whether a CDI specification of the GPUs lies where Docker may look for one.
    cdi: bool = False


def judge(expected: int | None, driver_wanted: bool, facts: GpuFacts) -> Iterator[Check]:
    if not expected and not facts.devices:
        return
    yield on_the_bus(expected, facts.devices)
    yield bars(facts.devices)
    if not driver_wanted and facts.smi is None:
        return
    smi = facts.smi or Smi("", (), "nvidia-smi is not installed")
    yield in_the_driver(expected, facts.devices, smi)
    yield errors(smi, facts.xids)
    if smi.trouble:
        return
    yield versions(smi, facts)
    yield cuda(facts.cuda, len(smi.gpus))
    yield persistence(smi)
    if facts.links is not None:
        yield nvlink(facts.links)
    if facts.docker is not None:
        yield docker(facts.docker, facts.cdi)


def on_the_bus(expected: int | None, devices: list[Device]) -> Check:
    gone = [device.address for device in devices if device.gone]
    if gone:
        return check("gpu pci", False, f"{', '.join(gone)} has fallen off the bus (rev ff)", count=len(devices))
    ok = expected is None or len(devices) == expected
    wanted = "" if ok else f", {expected} expected"
    # Which widths are right only the machine's maker knows, but nodes of a profile can be compared.
    widths = [device.width for device in devices if device.width]
    more = {"width": min(widths)} if widths else {}
    return check("gpu pci", ok, f"{counted(len(devices), 'GPU')} on the bus{wanted}", count=len(devices), **more)


def bars(devices: list[Device]) -> Check:
    bad = [f"{device.address} region {region}" for device in devices for region in device.unassigned]
    if bad:
        return check("gpu bars", False, f"no room was found for {', '.join(bad)}")
    return check("gpu bars", True, "all memory windows have room")


def in_the_driver(expected: int | None, devices: list[Device], smi: Smi) -> Check:
    wanted = len(devices) if expected is None else expected
    if smi.trouble:
        return check("gpu driver", False, smi.trouble, count=len(smi.gpus))
    missing = {device.address for device in devices} - {gpu.bus for gpu in smi.gpus}
    if len(smi.gpus) == wanted and not missing:
        return check("gpu driver", True, f"the driver has all {wanted}", count=wanted, driver=smi.driver)
    where = f"; not {', '.join(sorted(missing))}" if missing else ""
    return check("gpu driver", False, f"the driver has {len(smi.gpus)} of {wanted}{where}", count=len(smi.gpus))


def errors(smi: Smi, xids: tuple[tuple[str, int], ...]) -> Check:
    said = [f"{bus}: Xid {number}{' (fallen off the bus)' if number == 79 else ''}" for bus, number in xids]
    for gpu in smi.gpus:
        said += [f"{gpu.bus}: fallen off the bus, the driver cannot reach it"] if gpu.lost else []
        said += [f"{gpu.bus}: {gpu.uncorrectable} uncorrectable memory errors"] if gpu.uncorrectable else []
        said += [f"{gpu.bus}: a row remapping failed"] if gpu.remap_failed else []
        said += [f"{gpu.bus}: a row remapping waits for a reset"] if gpu.remap_pending else []
    modes = sorted({gpu.ecc for gpu in smi.gpus if gpu.ecc})
    return check("gpu errors", not said, "; ".join(said) or "none", **({"ecc": " ".join(modes)} if modes else {}))


def versions(smi: Smi, facts: GpuFacts) -> Check:
    found = {"nvidia-smi": smi.driver, "kernel module": parse_version(facts.module)}
    if facts.fabric_manager:
        found["Fabric Manager"] = parse_version(facts.fabric_manager)
    known = {version for version in found.values() if version}
    words = ", ".join(f"{name} {version or 'unknown'}" for name, version in found.items())
    # A Fabric Manager that does not say which it is has shown nothing.
    ok = len(known) == 1 and found.get("Fabric Manager") != ""
    return check("gpu versions", ok, words, driver=smi.driver)


def cuda(said: str, count: int) -> Check:
    """nvidia-smi works without CUDA; programs do not."""
    if said.isdigit():
        return check("gpu cuda", int(said) == count, f"CUDA starts and finds {said} of {count}")
    return check("gpu cuda", False, said or "CUDA could not be asked")


def persistence(smi: Smi) -> Check:
    off = [gpu.bus for gpu in smi.gpus if not gpu.persistence]
    return check("gpu persistence", not off, f"off: {', '.join(off)}" if off else "on")


def nvlink(links: Mapping[int, list[bool]]) -> Check:
    down = [f"GPU {gpu} link {n}" for gpu, states in links.items() for n, up in enumerate(states) if not up]
    up = sum(sum(states) for states in links.values())
    return check("gpu nvlink", not down, f"down: {', '.join(down)}" if down else f"{up} links up", links=up)


def docker(said: str, cdi: bool) -> Check:
    """`docker info` as JSON. Its runtimes and devices count, not any word in it: hosts are called nvidia-1 too."""
    try:
        found = json.loads(said)
        runtimes, devices = found.get("Runtimes") or {}, found.get("DiscoveredDevices") or []
        # Docker before 28 does not list devices, but says whether it looks for specifications.
        looks = cdi and bool(found.get("CDISpecDirs"))
    except (ValueError, AttributeError):
        return check("docker gpus", False, "Docker does not answer, or not to the end")
    ways = ["the NVIDIA runtime"] if any("nvidia" in name for name in runtimes) else []
    ways += ["CDI devices"] if looks or any("nvidia.com/gpu" in str(device) for device in devices) else []
    words = f"Docker has {' and '.join(ways)}" if ways else "Docker knows no NVIDIA runtime and no CDI device"
    return check("docker gpus", bool(ways), words)
