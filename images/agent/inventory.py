"""What this machine is: everything the head node wants to know, gathered from /sys, /proc and a few programs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import bmc, disks, dmi, nics, pci
from .nics import read
from .runner import ask, run

DMI = Path("/sys/class/dmi/id")
PCI = Path("/sys/bus/pci/devices")
PCI_FILES = (
    "vendor", "device", "class", "subsystem_vendor", "subsystem_device", "resource", "current_link_speed",
    "current_link_width", "numa_node",
)  # fmt: skip
EFI = Path("/sys/firmware/efi")
SECURE_BOOT = EFI / "efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
BY_PATH = Path("/dev/disk/by-path")


def collect(neighbours: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    return {
        **cpu_facts(Path("/proc/cpuinfo").read_text()),
        "memory_bytes": memory_bytes(Path("/proc/meminfo").read_text()),
        "dimms": dmi.dimms(ask(["dmidecode", "--type", "17"])),
        **machine_facts(DMI),
        "firmware": "uefi" if EFI.is_dir() else "bios",
        "secure_boot": secure_boot(SECURE_BOOT),
        "nics": nics.collect(neighbours),
        "disks": disk_facts(),
        **accelerators(PCI),
        "bmc": bmc_facts(),
        "kernel": read(Path("/proc/sys/kernel/osrelease")),
    }


def cpu_facts(text: str) -> dict[str, Any]:
    """Threads, sockets, cores and the model's name, from /proc/cpuinfo."""
    fields = [line.partition(":") for line in text.splitlines() if ":" in line]
    values = [(key.strip(), value.strip()) for key, _, value in fields]
    sockets = {value for key, value in values if key == "physical id"}
    models = [value for key, value in values if key == "model name"]
    cores = next((int(value) for key, value in values if key == "cpu cores" and value.isdigit()), 0)
    threads = sum(key == "processor" for key, _ in values)
    return {
        "cpus": threads,
        "cpu_model": models[0] if models else "",
        "cpu_sockets": len(sockets) or 1,
        "cpu_cores": cores * (len(sockets) or 1) or threads,
    }


def memory_bytes(text: str) -> int:
    found = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def machine_facts(source: Path) -> dict[str, str]:
    names = {
        "serial": "product_serial", "product": "product_name", "manufacturer": "sys_vendor", "uuid": "product_uuid",
        "board_serial": "board_serial", "bios_version": "bios_version", "bios_date": "bios_date",
    }  # fmt: skip
    return {fact: dmi.said(read(source / file)) for fact, file in names.items()}


def secure_boot(variable: Path) -> bool:
    """Four bytes of attributes, then one of value."""
    try:
        return variable.read_bytes()[4:5] == b"\x01"
    except OSError:
        return False


def disk_facts() -> list[dict[str, Any]]:
    return disks.parse_lsblk(ask(disks.LSBLK), by_path(BY_PATH))


def by_path(directory: Path) -> dict[str, str]:
    """Kernel name → name by connector; of several names the shortest, which is the one without a protocol's extras."""
    names: dict[str, str] = {}
    links = sorted(directory.iterdir(), key=lambda link: (len(link.name), link.name)) if directory.is_dir() else []
    for link in links:
        names.setdefault(link.resolve().name, link.name)
    return names


def accelerators(source: Path) -> dict[str, Any]:
    addresses = sorted(source.iterdir()) if source.is_dir() else []
    found = [pci.device_facts(path.name, {name: read(path / name) for name in PCI_FILES}) for path in addresses]
    return {
        "gpus": [device for device in found if pci.is_gpu(device)],
        "nvswitches": [device for device in found if pci.is_nvswitch(device)],
    }


def bmc_facts() -> dict[str, str] | None:
    for module in ("ipmi_si", "ipmi_ssif", "ipmi_devintf"):
        run(["modprobe", "-q", module])
    if not any(Path(place).exists() for place in ("/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0")):
        return None
    # Most BMCs use channel 1; some vendors' use 8.
    for channel in ("1", "8"):
        if found := bmc.parse_lan(ask(["ipmitool", "lan", "print", channel], timeout=30)):
            return found
    return None
