"""What a node must show to be up: from its profile's settings, its layout and what was inspected."""

from collections.abc import Mapping
from typing import Any

from headnode.effective import effective
from headnode.model import Node, State
from headnode.shares import shares
from headnode.site import Site
from headnode.workflows.context import Context
from images.overlay import CACHE

BURN_IN = "burn-in "
SWAP = ("swap", "swapfile")
# What the kernel calls what a layout calls otherwise.
KINDS = {"esp": "vfat"}


def expected(context: Context, node: Node) -> dict[str, Any]:
    return of(context.site, node, context.inventory.hardware(node) or {})


def of(site: Site, node: Node, hardware: Mapping[str, Any]) -> dict[str, Any]:
    """Pure. What is not known is not expected."""
    settings = {key: found.value for key, found in effective(site, node).items()}
    layout = site.layouts.get(str(settings["layout"]))
    volumes = layout.volumes if layout else ()
    ethernet = [nic for nic in node.nics if nic.network in site.networks and not infiniband(site, nic.network)]
    gpus = settings.get("gpus")
    wanted: dict[str, Any] = {
        "hostname": node.name,
        "fqdn": f"{node.name}.{site.domain}",
        "address": node.address,
        "memory_bytes": hardware.get("memory_bytes"),
        "cpus": hardware.get("cpus"),
        "disks": [disk.get("serial") for disk in listed(hardware, "disks") if not disk.get("removable")],
        "nfs": [share.path for share in shares(site)],
        "cache": any(volume.mount == CACHE for volume in volumes) and bool(shares(site)),
        "filesystems": {v.mount: KINDS.get(v.type, v.type) for v in volumes if v.mount and v.type not in SWAP},
        "swap": any(volume.type == "swap" for volume in volumes),
        "raid": len(layout.raid1) if layout else None,
        "macs": [nic.mac for nic in ethernet],
        "link_speed": settings.get("link_speed"),
        "infiniband_ports": settings.get("infiniband_ports"),
        "infiniband_rate": settings.get("infiniband_rate"),
        "gpu_count": len(listed(hardware, "gpus")) if gpus is None and hardware else gpus,
        "driver": settings.get("nvidia_branch") not in (None, "none"),
        "burn_in": burn_in(node),
    }
    return {key: value for key, value in wanted.items() if value not in (None, [], {}, False)}


def burn_in(node: Node) -> int | None:
    """Seconds of work that were asked for with the verification, kept in the node's phase while it lasts."""
    phase = node.phase or ""
    asked = node.state is State.VERIFYING and phase.startswith(BURN_IN)
    return int(phase.removeprefix(BURN_IN)) if asked and phase.removeprefix(BURN_IN).isdigit() else None


def infiniband(site: Site, network: str) -> bool:
    return site.networks[network].type == "infiniband"


def listed(facts: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = facts.get(key)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []
