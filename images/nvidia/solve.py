"""From a machine and what is wanted of it to its stack; or a refusal that names the two facts that conflict. Pure."""

from collections.abc import Iterator

from images.nvidia.containers import container_items
from images.nvidia.machine import Gpu, Machine, StackRefused, Wanted
from images.nvidia.rules import Archive, Branch, rules
from images.nvidia.settings import rdma_items, setting_items
from images.nvidia.stack import Item, Kind, Stack, items

DEBIAN_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def solve(machine: Machine, wanted: Wanted) -> Stack:
    if wanted.none or not machine.gpus:
        why = "nvidia_branch is none" if wanted.none else "no NVIDIA GPU was found, so nothing of NVIDIA's is installed"
        return Stack(why, items=tuple(container_items(None, None, wanted)))
    refuse_wrong_machine(machine, wanted)
    archive = archive_of(wanted)
    number = choose_branch(machine, wanted, archive)
    branch = archive.branches[number]
    refuse_branch(machine, wanted, number)
    modules, why_modules = choose_modules(machine, wanted, number, branch, archive)
    refuse_secure_boot(machine, branch, modules)
    version = wanted.version or branch.version
    found: list[Item] = [
        # DOCA-OFED comes first: modules of the driver are built against its own.
        *rdma_items(wanted, modules),
        *driver_items(archive, number, branch, modules, why_modules, wanted),
        *fabric_items(machine, archive, number, branch, wanted),
        *imex_items(machine, archive, number, branch),
    ]
    held = bool(machine.fabrics) or wanted.version is not None or wanted.source == "nvidia"
    found += pin_items(found, version) if held else ()
    found += setting_items(machine, wanted, modules)
    found += container_items(machine, archive, wanted)
    summary = f"driver {number}, {modules} modules, from {archive.title}, for {machine.counted()}"
    return Stack(summary, number, version, modules, tuple(found))


def refuse_wrong_machine(machine: Machine, wanted: Wanted) -> None:
    for gpu in machine.kinds:
        if gpu.listed and gpu.listed.machine and gpu.listed.machine != wanted.machine:
            raise StackRefused(
                f"{gpu} is part of an {gpu.listed.machine} machine, and architecture is '{wanted.machine}'",
                hint=f"set architecture to {gpu.listed.machine}",
            )


def archive_of(wanted: Wanted) -> Archive:
    found = rules().archive(wanted.os, wanted.release, wanted.source)
    if found is None:
        known = sorted({f"{a.os} {a.release}" for a in rules().archives if a.source == wanted.source})
        raise StackRefused(
            f"no NVIDIA driver is known for {wanted.os} {wanted.release} from nvidia_source '{wanted.source}'; "
            f"known are {', '.join(known)}"
        )
    if wanted.source == "nvidia" and "nvidia" not in wanted.archives:
        raise StackRefused(
            "nvidia_source is 'nvidia', and site.yaml names no archive 'nvidia' under packages.archives",
            hint="name NVIDIA's archive for this release, or your mirror of it, and the file with its key",
        )
    return found


def choose_branch(machine: Machine, wanted: Wanted, archive: Archive) -> int:
    """The one that was asked for; or the first of the archive's that every GPU can use."""
    if wanted.branch is not None:
        if wanted.branch not in archive.branches:
            known = ", ".join(map(str, archive.branches))
            raise StackRefused(f"nvidia_branch is {wanted.asked}, and {archive.title} has {known}")
        return wanted.branch
    for number in archive.auto:
        if all(fits(gpu, number) for gpu in machine.kinds) and wanted.machine in archive.branches[number].machines:
            return number
    first = max(machine.kinds, key=lambda gpu: gpu.first)
    oldest = min(machine.kinds, key=lambda gpu: gpu.architecture.last or 10_000)
    last = oldest.architecture.last
    if last is not None and last < first.first:
        raise StackRefused(
            f"{first} needs branch {first.first} or newer and {oldest} ({oldest.architecture.name}) has none after "
            f"{last}: no driver drives both in one machine"
        )
    too_old = last is not None and last < min(archive.branches)
    need = f"{oldest} has no branch after {last}" if too_old else f"{first} needs branch {first.first} or newer"
    raise StackRefused(
        f"{need}, and {archive.title} has {', '.join(map(str, archive.branches))}",
        hint="" if too_old or wanted.source == "nvidia" else "set nvidia_source to nvidia, or use a newer release",
    )


def fits(gpu: Gpu, branch: int) -> bool:
    return gpu.first <= branch <= (gpu.architecture.last or branch)


def refuse_branch(machine: Machine, wanted: Wanted, number: int) -> None:
    for gpu in machine.kinds:
        last = gpu.architecture.last
        if last is not None and number > last:
            # The words people know a card by come first, so that the one thing to change is seen at once.
            flavour = " and which has no open modules" if wanted.modules == "open" else ""
            raise StackRefused(
                f"{gpu} is {gpu.architecture.name}, whose last branch is {last}{flavour}; "
                f"branch {wanted.asked} was asked for"
            )
        if number < gpu.first:
            raise StackRefused(f"{gpu} needs branch {gpu.first} or newer; branch {wanted.asked} was asked for")


def choose_modules(machine: Machine, wanted: Wanted, number: int, branch: Branch, archive: Archive) -> tuple[str, str]:
    """Open or proprietary, and why."""
    never = [gpu for gpu in machine.kinds if gpu.open == "never"]
    needed = [gpu for gpu in machine.kinds if gpu.open == "needed"]
    if never and needed:
        raise StackRefused(
            f"{needed[0]} works with the open modules only and {never[0]} with the proprietary only; "
            f"one machine has one or the other"
        )
    asked = wanted.modules
    if asked == "open" and never:
        raise StackRefused(
            f"{never[0]} has no open modules ({never[0].architecture.name} has no GSP); {wanted.asked} was asked for"
            if wanted.branch
            else f"{never[0]} has no open modules ({never[0].architecture.name} has no GSP); nvidia_modules is 'open'"
        )
    if asked == "proprietary" and needed:
        raise StackRefused(f"{needed[0]} works with the open modules only; nvidia_modules is 'proprietary'")
    chosen, why = preferred_modules(asked, never, needed, number, branch)
    if not getattr(branch, chosen):
        raise StackRefused(f"{archive.title} has no {chosen} modules in branch {number}, and they are needed: {why}")
    return chosen, why


def preferred_modules(asked: str, never: list[Gpu], needed: list[Gpu], number: int, branch: Branch) -> tuple[str, str]:
    known = rules()
    if asked != "auto":
        return asked, f"nvidia_modules asks for {asked} modules"
    if needed:
        return "open", f"{needed[0]} works with the open modules only"
    if never:
        return "proprietary", f"{never[0]} is {never[0].architecture.name}: it has no GSP, which the open modules need"
    if not branch.proprietary:
        return "open", f"branch {number} comes with open modules only"
    if number >= known.open_preferred:
        return (
            "open",
            f"since branch {known.open_preferred} NVIDIA recommends the open modules, and every GPU here has a GSP",
        )
    return (
        "proprietary",
        f"before branch {known.open_preferred} the proprietary modules are NVIDIA's choice for data centres",
    )


def refuse_secure_boot(machine: Machine, branch: Branch, modules: str) -> None:
    built = [name for name in getattr(branch, modules) if "dkms" in name and "no-dkms" not in name]
    if machine.secure_boot and built:
        raise StackRefused(
            f"Secure Boot is on, and {built[0]} builds modules that are signed with a key this machine does not know",
            hint="use Ubuntu's archive, whose modules are signed, or switch Secure Boot off in the firmware",
        )


def driver_items(
    archive: Archive, number: int, branch: Branch, modules: str, why_modules: str, wanted: Wanted
) -> Iterator[Item]:
    arch = DEBIAN_MACHINES[wanted.machine]
    yield from items(
        Kind.COMPONENT, archive.components, f"{archive.title} keeps NVIDIA's packages there", archive.sources
    )
    if archive.source == "nvidia":
        yield Item(Kind.ARCHIVE, "nvidia", "nvidia_source asks for NVIDIA's own archive", archive.sources)
    if archive.headers and any("dkms" in name for name in getattr(branch, modules)):
        yield Item(Kind.PACKAGE, archive.headers.format(arch=arch), "DKMS compiles the modules for the kernel",
                   archive.sources)  # fmt: skip
    named = [name.format(branch=number) for name in getattr(branch, modules)]
    yield from items(Kind.PACKAGE, named, f"{modules} modules: {why_modules}", ("modules", *archive.sources))
    common = [name.format(branch=number) for name in branch.common]
    yield from items(Kind.PACKAGE, common, f"driver {number} without a display", archive.sources)


def fabric_items(machine: Machine, archive: Archive, number: int, branch: Branch, wanted: Wanted) -> Iterator[Item]:
    """Fabric Manager and what reads its switches; only with NVSwitch."""
    if not machine.fabrics:
        return
    fifth = 5 in machine.fabrics
    names = branch.fabric5 if fifth else branch.fabric
    if not names:
        what = "Fabric Manager for NVLink 5" if fifth and branch.fabric else "Fabric Manager"
        raise StackRefused(
            f"this machine has NVSwitches, and {archive.title} has no {what} for branch {number}: "
            f"its GPUs would never start",
            hint="set nvidia_source to nvidia" + ("" if wanted.os == "ubuntu" else ", or use Ubuntu") if not fifth
            else "set nvidia_source to nvidia",
        )  # fmt: skip
    why = "NVSwitches were found: without Fabric Manager of exactly the driver's release no CUDA program starts"
    yield from items(Kind.PACKAGE, [name.format(branch=number) for name in names], why, ("fabric", *archive.sources))
    yield Item(Kind.SERVICE, "nvidia-fabricmanager.service", why, ("fabric",))
    yield Item(Kind.CHECK, "fabricmanager-version", "Fabric Manager refuses to work with another release of the driver",
               ("fabric",))  # fmt: skip
    if fifth:
        yield from items(Kind.PACKAGE, archive.subnet_manager, "NVLink 5 has a subnet manager (NVLSM)",
                         ("fabric",))  # fmt: skip
        yield Item(
            Kind.MODULE, "ib_umad", "Fabric Manager talks to the switches of NVLink 5 through it", ("umad", "fabric")
        )


def imex_items(machine: Machine, archive: Archive, number: int, branch: Branch) -> Iterator[Item]:
    if not any(gpu.listed and gpu.listed.imex for gpu in machine.kinds):
        return
    if not branch.imex:
        raise StackRefused(
            f"{machine.kinds[0]} shares memory with other trays through IMEX, "
            f"and {archive.title} has none for branch {number}",
            hint="set nvidia_source to nvidia",
        )
    names = [name.format(branch=number) for name in branch.imex]
    yield from items(Kind.PACKAGE, names, "memory is shared with the other trays of the rack through IMEX", ("fabric",))
    yield Item(Kind.SERVICE, "nvidia-imex.service", "memory is shared with the other trays of the rack through IMEX",
               ("fabric",))  # fmt: skip
    yield Item(Kind.ADVICE, "run Fabric Manager and NVLSM on the rack's switch trays, not here",
               "the NVSwitches of an NVL72 rack are not in the compute trays", ("fabric",))  # fmt: skip


def pin_items(found: list[Item], version: str) -> list[Item]:
    """Every package that carries the driver's release, held at it: what was installed together stays together."""
    names = [item.value for item in found if item.kind is Kind.PACKAGE and is_driver(item.value)]
    why = f"everything of the driver is held at release {version}, so that no part moves alone"
    return items(Kind.PIN, [f"{name}={version}" for name in names], why, ("locking", "fabric"))


def is_driver(package: str) -> bool:
    """Whether a package's version is the driver's: what has a life of its own has not."""
    return not package.startswith(("linux-", "nvlsm", "nvidia-modprobe", "nvidia-persistenced", "rdma-core", "ibverbs",
                                   "infiniband", "doca", "firmware-"))  # fmt: skip
