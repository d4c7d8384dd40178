"""GPUs and NVSwitches as the PCI bus shows them, before any driver. Pure."""

from collections.abc import Mapping
from typing import Any

NVIDIA, AMD, INTEL = "10de", "1002", "8086"
DISPLAY, PROCESSING = "03", "12"
VGA = "0300"
OTHER_BRIDGE = "0680"
# From the kernel's ioport.h.
IO, MEMORY, UNSET = 0x100, 0x200, 0x20000000
BARS = 6


def device_facts(address: str, files: Mapping[str, str]) -> dict[str, Any]:
    """`files` are those of /sys/bus/pci/devices/ADDRESS by name."""
    return {
        "address": address,
        "vendor": hexadecimal(files.get("vendor", "")),
        "device": hexadecimal(files.get("device", "")),
        "class": hexadecimal(files.get("class", ""))[:4],
        "subsystem": ":".join(hexadecimal(files.get(f"subsystem_{part}", "")) for part in ("vendor", "device")),
        "bars_assigned": bars_assigned(files.get("resource", "")),
        "link_speed": files.get("current_link_speed", "").strip(),
        "link_width": files.get("current_link_width", "").strip(),
        "numa": files.get("numa_node", "").strip(),
    }


def hexadecimal(text: str) -> str:
    return text.strip().lower().removeprefix("0x")


def is_gpu(device: Mapping[str, Any]) -> bool:
    """What computes: not the small display chips of BMCs, and not a processor's own graphics."""
    group, vendor = str(device["class"])[:2], device["vendor"]
    if group == DISPLAY:
        return vendor in (NVIDIA, AMD) or bool(vendor == INTEL and device["class"] != VGA)
    return group == PROCESSING and vendor in (NVIDIA, AMD, INTEL)


def is_nvswitch(device: Mapping[str, Any]) -> bool:
    return (device["vendor"], device["class"]) == (NVIDIA, OTHER_BRIDGE)


def bars_assigned(resource: str) -> bool:
    """Whether the firmware found room for every memory window; without it a large GPU cannot be used."""
    windows = [window for line in resource.splitlines()[:BARS] if (window := parse_window(line))]
    memory = [(start, flags) for start, _, flags in windows if flags & MEMORY]
    return bool(memory) and all(start != 0 and not flags & UNSET for start, flags in memory)


def parse_window(line: str) -> tuple[int, int, int] | None:
    try:
        start, end, flags = (int(word, 16) for word in line.split())
    except ValueError:
        return None
    return start, end, flags
