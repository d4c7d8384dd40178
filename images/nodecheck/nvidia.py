"""What nvidia-smi says. Pure."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True)
class Gpu:
    bus: str
    name: str
    persistence: bool
    uncorrectable: int
    remap_pending: bool
    remap_failed: bool
    temperature: int | None = None
    # The driver lists it and cannot talk to it.
    lost: bool = False
    # "Enabled" or "Disabled", where the GPU has error correction at all.
    ecc: str = ""


@dataclass(frozen=True)
class Smi:
    driver: str
    gpus: tuple[Gpu, ...]
    # Why there is nothing, or not all; empty when all is well.
    trouble: str = ""


def parse_smi(text: str) -> Smi:
    """`nvidia-smi -q -x`; what is cut off or no XML at all is said to be so, never taken for "no GPUs"."""
    if not text.lstrip().startswith("<"):
        said = " ".join(text.split())[:200]
        return Smi("", (), f"nvidia-smi says: {said}" if said else "nvidia-smi says nothing")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - written by the node's own driver
    except ElementTree.ParseError:
        return Smi("", (), "the answer of nvidia-smi is cut off or damaged")
    gpus = tuple(parse_gpu(found) for found in root.iter("gpu"))
    attached = whole(root.findtext("attached_gpus"))
    trouble = f"nvidia-smi counts {attached} GPUs and lists {len(gpus)}" if attached not in (None, len(gpus)) else ""
    return Smi((root.findtext("driver_version") or "").strip(), gpus, trouble)


def parse_gpu(gpu: ElementTree.Element) -> Gpu:
    def said(path: str) -> str:
        return (gpu.findtext(path) or "").strip()

    errors = gpu.find("ecc_errors/volatile")
    uncorrectable = [whole(e.text) or 0 for e in (errors if errors is not None else ()) if "uncorrectable" in e.tag]
    everything = " ".join(gpu.itertext())
    return Gpu(
        bus=bus_address(gpu.get("id") or said("pci/pci_bus_id")),
        name=said("product_name"),
        persistence=said("persistence_mode") == "Enabled",
        uncorrectable=sum(uncorrectable),
        remap_pending=said("remapped_rows/remapped_row_pending") == "Yes",
        remap_failed=said("remapped_rows/remapped_row_failure") == "Yes",
        temperature=whole(said("temperature/gpu_temp")),
        ecc=ecc if (ecc := said("ecc_mode/current_ecc")) in ("Enabled", "Disabled") else "",
        lost=bool(re.search(r"GPU is lost|Unknown Error|GPU requires reset", everything)),
    )


def bus_address(text: str) -> str:
    """`00000000:07:00.0` as the kernel writes it: `0000:07:00.0`."""
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else text.strip().lower()


def whole(text: str | None) -> int | None:
    found = re.match(r"\s*(\d+)", text or "")
    return int(found[1]) if found else None


LINK = re.compile(r"^\s*Link (\d+): (.+)$")
OWNER = re.compile(r"^GPU (\d+):")


def parse_nvlink(text: str) -> dict[int, list[bool]]:
    """`nvidia-smi nvlink --status`: for each GPU, whether each of its links is up."""
    found: dict[int, list[bool]] = {}
    current: list[bool] | None = None
    for line in text.splitlines():
        if owner := OWNER.match(line):
            current = found.setdefault(int(owner[1]), [])
        elif (link := LINK.match(line)) and current is not None:
            current.append("inactive" not in link[2])
    return found


VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


def parse_version(text: str) -> str:
    """The first version number: of Fabric Manager's own word, or of /proc/driver/nvidia/version."""
    found = VERSION.search(text)
    return found[0] if found else ""


XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
# What a program's own mistake causes says nothing about the machine.
HARMLESS = frozenset({13, 31, 43, 45})


def parse_xids(text: str) -> list[tuple[str, int]]:
    """The hardware's errors that the driver wrote to the kernel's log, each once: (bus address, number)."""
    found = dict.fromkeys((bus.lower(), int(number)) for bus, number in XID.findall(text))
    return [(bus, number) for bus, number in found if number not in HARMLESS]
