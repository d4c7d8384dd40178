"""Kernel arguments, modules, services and checks that go with a driver. Pure."""

from collections import Counter
from collections.abc import Iterator

from images.nvidia.machine import Gpu, Machine, StackRefused, Wanted
from images.nvidia.rules import rules
from images.nvidia.stack import Item, Kind, items


def setting_items(machine: Machine, wanted: Wanted, modules: str) -> list[Item]:
    return [
        *nouveau_items(),
        *bar_items(machine),
        *peer_items(machine, wanted),
        *daemon_items(machine, wanted),
        *mig_items(machine, wanted),
    ]


def nouveau_items() -> Iterator[Item]:
    why = "nouveau would take the GPUs before NVIDIA's driver can"
    yield from items(Kind.MODPROBE, ["blacklist nouveau", "options nouveau modeset=0"], why, ("guide",))
    yield Item(Kind.KERNEL, "modprobe.blacklist=nouveau", f"{why}, already in the initramfs", ("kernel", "guide"))


def bar_items(machine: Machine) -> Iterator[Item]:
    """The "only 4 of 8 GPUs" case."""
    without = [gpu for gpu in machine.gpus if not gpu.bars_assigned]
    if without:
        yield Item(
            Kind.KERNEL, "pci=realloc",
            f"the firmware found no room for the memory windows of {len(without)} of {len(machine.gpus)} GPUs "
            f"({', '.join(gpu.address for gpu in without)})", ("kernel",),
        )  # fmt: skip
        yield Item(Kind.ADVICE, "switch 'Above 4G decoding' on in the firmware, and give MMIO more room",
                   "pci=realloc only helps where the firmware leaves room at all", ("kernel",))  # fmt: skip


def peer_items(machine: Machine, wanted: Wanted) -> Iterator[Item]:
    several = [gpu for gpu in machine.gpus if not gpu.consumer]
    if len(several) < 2 or wanted.machine != "x86_64":
        return
    yield Item(Kind.KERNEL, "iommu=pt", f"{len(several)} GPUs copy to each other, which the IOMMU would slow down",
               ("acs", "kernel"))  # fmt: skip
    if not machine.fabrics:
        yield Item(Kind.ADVICE, "switch PCI ACS off in the firmware, unless virtual machines get GPUs passed through",
                   "with ACS on, copies between GPUs go up to the processor and back", ("acs",))  # fmt: skip


def daemon_items(machine: Machine, wanted: Wanted) -> Iterator[Item]:
    yield Item(Kind.SERVICE, "nvidia-persistenced.service",
               "the driver stays loaded between programs: each starts at once, and settings last",
               ("persistence",))  # fmt: skip
    yield Item(
        Kind.CHECK, f"gpu-count={len(machine.gpus)}", "every GPU on the PCI bus must also be one of the driver's"
    )
    yield Item(Kind.CHECK, "driver-version", "the running module must be the release that was installed")
    archive = rules().archive(wanted.os, wanted.release, wanted.source)
    professional = any(not gpu.consumer for gpu in machine.gpus)
    if professional and archive and archive.dcgm:
        yield from items(Kind.PACKAGE, archive.dcgm, "DCGM watches data centre GPUs and diagnoses them", ("dcgm",))
        yield Item(Kind.SERVICE, "nvidia-dcgm.service", "DCGM watches data centre GPUs and diagnoses them", ("dcgm",))
    elif professional:
        yield Item(Kind.ADVICE, "DCGM is in NVIDIA's archive only", "the distribution's archive has no DCGM", ("dcgm",))


def mig_items(machine: Machine, wanted: Wanted) -> Iterator[Item]:
    if not wanted.mig:
        return
    for gpu in machine.kinds:
        refuse_geometry(gpu, wanted.mig)
    profiles = ",".join(wanted.mig)
    yield Item(Kind.SERVICE, f"headnode-mig.service={profiles}",
               f"each GPU is cut into {profiles}; that is lost at every reset and made again at each start",
               ("mig",))  # fmt: skip


def refuse_geometry(gpu: Gpu, geometry: tuple[str, ...]) -> None:
    slicing = rules().slicing(gpu.device, gpu.chip)
    if slicing is None or gpu.consumer:
        raise StackRefused(f"{gpu} cannot be cut into instances (MIG), and nvidia_mig is {' '.join(geometry)}")
    unknown = [profile for profile in geometry if profile not in slicing.profiles]
    if unknown:
        raise StackRefused(f"{gpu} has no MIG profile {unknown[0]}; it has {', '.join(slicing.profiles)}")
    total = sum(slicing.profiles[profile] for profile in geometry)
    if total > slicing.slices:
        counted = ", ".join(f"{number} x {name}" for name, number in Counter(geometry).items())
        raise StackRefused(f"{counted} are {total} slices, and {gpu} has {slicing.slices}")


def rdma_items(wanted: Wanted, modules: str) -> Iterator[Item]:
    """GPUDirect RDMA: network cards that read and write GPU memory."""
    if wanted.rdma == "inbox":
        if modules != "open":
            raise StackRefused(
                "rdma is 'inbox', which reaches GPU memory through DMA-BUF, and that needs the open modules; "
                "this machine gets the proprietary ones",
                hint="set rdma to doca, or nvidia_modules to open where the GPUs allow it",
            )
        yield from items(Kind.PACKAGE, ["rdma-core", "ibverbs-providers", "infiniband-diags"],
                         "the kernel's own RDMA; GPU memory is reached through DMA-BUF, without nvidia-peermem",
                         ("gdr",))  # fmt: skip
    elif wanted.rdma == "doca":
        if "doca" not in wanted.archives:
            raise StackRefused(
                "rdma is 'doca', and site.yaml names no archive 'doca' under packages.archives",
                hint="name the archive of DOCA-OFED, or your mirror of it, and the file with its key",
            )
        yield Item(Kind.ARCHIVE, "doca", "rdma asks for DOCA-OFED", ("gdr",))
        yield Item(
            Kind.PACKAGE,
            "doca-ofed",
            "installed before the driver: nvidia-peermem is built against its ib_core",
            ("gdr",),
        )
        yield Item(
            Kind.MODULE,
            "nvidia-peermem",
            "network cards reach GPU memory through it where DMA-BUF is not used",
            ("gdr",),
        )
