"""What `lspci -vvv` says of NVIDIA's devices. Pure."""

import re
from dataclasses import dataclass, field

HEAD = re.compile(r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^:\[]+)(?: \[(\w{4})\])?: (.*)$")
REGION = re.compile(r"^\s+Region (\d): Memory at (\S+)")
LINK = re.compile(r"^\s+LnkSta:\s+Speed ([\d.]+)GT/s(?: \([^)]*\))?, Width x(\d+)")
CAPABLE = re.compile(r"^\s+LnkCap:.*Speed ([\d.]+)GT/s, Width x(\d+)")
GPU_CLASSES = ("3D controller", "VGA compatible controller", "Display controller", "Processing accelerators")


@dataclass
class Device:
    address: str
    kind: str
    name: str
    # Memory windows that nobody found room for.
    unassigned: list[int] = field(default_factory=list)
    # All ones: the device does not answer any more.
    gone: bool = False
    width: int | None = None
    capable: int | None = None


def parse_lspci(text: str) -> list[Device]:
    """GPUs of NVIDIA; a text that is cut off gives what it still says."""
    found: list[Device] = []
    current: Device | None = None
    for line in text.splitlines():
        if head := HEAD.match(line):
            current = device(head)
            if current is not None:
                found.append(current)
        elif current is not None:
            read_line(current, line)
    return found


def device(head: "re.Match[str]") -> Device | None:
    address, kind, _, name = head.groups()
    if "NVIDIA" not in name or kind.strip() not in GPU_CLASSES:
        return None
    full = address if address.count(":") == 2 else f"0000:{address}"
    return Device(full, kind.strip(), name, gone="(rev ff)" in name)


def read_line(device: Device, line: str) -> None:
    if (region := REGION.match(line)) and region[2] in ("<unassigned>", "<ignored>"):
        device.unassigned.append(int(region[1]))
    elif "Unknown header type 7f" in line:
        device.gone = True
    elif link := LINK.match(line):
        device.width = int(link[2])
    elif capable := CAPABLE.match(line):
        device.capable = int(capable[2])
