"""Names, memory, processors, disks, mounts and links beside what was expected. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .infiniband import Port
from .result import Check, check, number
from .storage import Mount, RaidSet

# Firmware and kernel keep some memory for themselves.
MEMORY_SLACK = 0.06


def dns(expected: Mapping[str, Any], forward: Sequence[str], backward: str) -> Iterator[Check]:
    name, address = expected.get("fqdn"), expected.get("address")
    if not name or not address:
        return
    there = address in forward
    yield check(
        "dns name", there, f"{name} is {', '.join(forward) or 'unknown'}" + ("" if there else f", not {address}")
    )
    back = backward.rstrip(".") == name
    yield check("dns address", back, f"{address} is {backward or 'unknown'}" + ("" if back else f", not {name}"))


def memory(expected: Mapping[str, Any], found: int) -> Iterator[Check]:
    wanted = number(expected.get("memory_bytes"))
    if wanted:
        ok = found >= wanted * (1 - MEMORY_SLACK)
        words = f"{found / 2**30:.1f} GiB" + ("" if ok else f", {wanted / 2**30:.1f} GiB inventoried")
        yield check("memory", ok, words, bytes=found)


def processors(expected: Mapping[str, Any], found: int) -> Iterator[Check]:
    wanted = number(expected.get("cpus"))
    if wanted:
        ok = found == wanted
        yield check("cpus", ok, f"{found}" + ("" if ok else f", {wanted:.0f} inventoried"), count=found)


def disks(expected: Mapping[str, Any], serials: Sequence[str]) -> Iterator[Check]:
    wanted = [str(serial) for serial in expected.get("disks") or () if serial]
    if wanted:
        missing = [serial for serial in wanted if serial not in serials]
        words = f"missing: {', '.join(missing)}" if missing else f"all {len(wanted)} there"
        yield check("disks", not missing, words, count=len(serials))


def filesystems(expected: Mapping[str, Any], mounts: Mapping[str, Mount]) -> Iterator[Check]:
    """What is mounted is of the planned kind and can be written to: a disk that fails is made read-only."""
    planned = expected.get("filesystems")
    if not isinstance(planned, Mapping) or not planned:
        return
    there = {path: mounts[path] for path in planned if path in mounts}
    wrong = [f"{path} is {mount.kind}, not {planned[path]}" for path, mount in there.items()
             if mount.kind != planned[path]]  # fmt: skip
    wrong += [f"{path} is read-only" for path, mount in there.items() if not mount.writable]
    yield check("file systems", not wrong, "; ".join(wrong) or "as planned")


def swap(expected: Mapping[str, Any], count: int) -> Iterator[Check]:
    if expected.get("swap"):
        yield check("swap", count > 0, "in use" if count else "planned, and none is in use")


def raid(expected: Mapping[str, Any], sets: Sequence[RaidSet]) -> Iterator[Check]:
    wanted = number(expected.get("raid"))
    if wanted is None:
        return
    bad = [f"{one.name} has {one.working or 0} of {one.members or 'its'} disks" for one in sets if not one.whole]
    missing = [f"{len(sets)} sets, {wanted:.0f} planned"] if len(sets) < wanted else []
    yield check("raid", not bad and not missing, "; ".join([*missing, *bad]) or "every set has all its disks")


def network_mounts(answers: Mapping[str, str]) -> Iterator[Check]:
    """Path → nothing when it answered, or what was wrong."""
    for path, trouble in answers.items():
        yield check(f"nfs {path}", not trouble, trouble or "answers")


def cache(expected: Mapping[str, Any], running: bool) -> Iterator[Check]:
    if expected.get("cache"):
        yield check("nfs cache", running, "cachefilesd runs" if running else "cachefilesd does not run")


def links(expected: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> Iterator[Check]:
    """`found`: MAC → name, up, speed in Mbit/s."""
    least = number(expected.get("link_speed"))
    for mac in expected.get("macs") or ():
        port = found.get(str(mac).lower())
        if port is None:
            yield check(f"link {mac}", False, f"there is no port with MAC {mac}")
            continue
        speed = number(port.get("speed")) or 0
        up, fast = bool(port.get("up")), least is None or speed >= least
        words = f"{speed:.0f} Mbit/s" if up and speed > 0 else "up" if up else "no link"
        words += "" if fast else f", {least:.0f} expected"
        yield check(f"link {port.get('name')}", up and fast, words, speed=speed)


def infiniband(expected: Mapping[str, Any], ports: Sequence[Port]) -> Iterator[Check]:
    wanted = number(expected.get("infiniband_ports"))
    least = number(expected.get("infiniband_rate"))
    if wanted is None and least is None:
        return
    good = [port for port in ports if port.state == "Active" and port.physical == "LinkUp"]
    slow = [port for port in good if least is not None and (port.rate or 0) < least]
    bad = [f"{port.name}: {port.state or 'unknown'}/{port.physical or 'unknown'}" for port in ports if port not in good]
    bad += [f"{port.name}: {port.rate or 0:g} Gbit/s, {least:g} expected" for port in slow]
    enough = len(good) >= (wanted or 1)
    words = f"{len(good)} ports up" + (f" of {wanted:.0f}" if wanted else "") + (f"; {'; '.join(bad)}" if bad else "")
    yield check(
        "infiniband", enough and not slow, words, ports=len(good), rate=min((p.rate or 0 for p in good), default=0)
    )
