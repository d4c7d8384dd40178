"""Docker, NVIDIA's container toolkit and enroot. Pure."""

from collections.abc import Iterator

from images.nvidia.machine import Machine, StackRefused, Wanted
from images.nvidia.rules import Archive, rules
from images.nvidia.stack import Item, Kind, items


def container_items(machine: Machine | None, archive: Archive | None, wanted: Wanted) -> Iterator[Item]:
    """With or without GPUs; `machine` is none where nothing of NVIDIA's is installed."""
    yield from docker_items(wanted)
    if machine is not None and archive is not None and (wanted.docker != "none" or wanted.enroot):
        yield from toolkit_items(archive, wanted)
    if wanted.enroot:
        yield from enroot_items(wanted)


def docker_items(wanted: Wanted) -> Iterator[Item]:
    known = rules().containers
    if wanted.docker == "distro":
        bundle = known.docker[wanted.os]
        yield from items(Kind.PACKAGE, bundle.packages, "docker asks for the distribution's Docker", bundle.sources)
    elif wanted.docker == "ce":
        refuse_missing("docker", "docker is 'ce'", wanted)
        yield Item(Kind.ARCHIVE, "docker", "docker asks for Docker's own packages", known.docker_ce.sources)
        yield from items(
            Kind.PACKAGE, known.docker_ce.packages, "docker asks for Docker's own packages", known.docker_ce.sources
        )
    if wanted.docker != "none":
        yield Item(Kind.SERVICE, "docker.service", "containers are wanted on this node", known.docker_ce.sources)


def toolkit_items(archive: Archive, wanted: Wanted) -> Iterator[Item]:
    """Containers reach GPUs through CDI, and through Docker's runtime of the name nvidia."""
    apart = not archive.toolkit
    if apart and "nvidia-toolkit" not in wanted.archives:
        yield Item(
            Kind.ADVICE, "name NVIDIA's container toolkit archive as nvidia-toolkit under packages.archives",
            f"{archive.title} has no container toolkit, so containers on this node see no GPU", ("toolkit",),
        )  # fmt: skip
        return
    if apart:
        yield Item(Kind.ARCHIVE, "nvidia-toolkit", "the toolkit's own archive; it holds nothing of the driver",
                   ("toolkit",))  # fmt: skip
    yield Item(Kind.PACKAGE, "nvidia-container-toolkit", "containers reach the GPUs through it", ("toolkit",))
    yield Item(
        Kind.SERVICE, "headnode-cdi.service", "the list of GPUs for containers is made anew at each start", ("cdi",)
    )
    if wanted.docker != "none":
        yield Item(
            Kind.RUNTIME,
            "nvidia",
            "docker run --runtime=nvidia, and --device nvidia.com/gpu=all by CDI",
            ("toolkit", "cdi"),
        )


def enroot_items(wanted: Wanted) -> Iterator[Item]:
    known = rules().containers
    refuse_missing("enroot", "enroot is wanted", wanted)
    yield Item(Kind.ARCHIVE, "enroot", "enroot asks for it; no distribution has it", known.enroot.sources)
    yield from items(
        Kind.PACKAGE, known.enroot_needs.packages, "enroot unpacks images with them", known.enroot_needs.sources
    )
    yield from items(
        Kind.PACKAGE, known.enroot.packages, "containers without a daemon, for Slurm", known.enroot.sources
    )
    yield from items(Kind.PACKAGE, known.pyxis.packages, "srun --container-image, through enroot", known.pyxis.sources)
    why = "enroot makes containers in user namespaces of the user's own"
    wanted_keys = ["user.max_user_namespaces=65536", "user.max_mnt_namespaces=65536"]
    if wanted.os == "debian":
        wanted_keys.append("kernel.unprivileged_userns_clone=1")
    if wanted.os == "ubuntu" and wanted.release >= "24.04":
        wanted_keys.append("kernel.apparmor_restrict_unprivileged_userns=0")
    yield from items(Kind.SYSCTL, wanted_keys, why, known.enroot.sources)


def refuse_missing(name: str, because: str, wanted: Wanted) -> None:
    if name not in wanted.archives:
        raise StackRefused(
            f"{because}, and site.yaml names no archive '{name}' under packages.archives",
            hint="name the archive, or your mirror of it, and the file with its key",
        )
