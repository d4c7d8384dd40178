"""The solver's answer as files of a node: apt's, the kernel's and systemd's. Pure."""

from collections.abc import Iterator, Mapping

from headnode.site import Archive
from images.nvidia.stack import Kind, Stack
from images.sources import Source, preferences, to_text

FABRIC = "nvidia-fabricmanager.service"
KEYRINGS = "/etc/apt/keyrings"
MADE = "# Made by headnode for the GPUs of this node ('headnode gpu plan'). Changes here are overwritten.\n"


def units(stack: Stack) -> list[str]:
    """Units that run; what follows an equals sign is for the unit's own file."""
    return [value.partition("=")[0] for value in stack.values(Kind.SERVICE)]


def masked(stack: Stack) -> list[str]:
    """An image may serve nodes with and without NVSwitches; without, Fabric Manager would fail at every start."""
    return [FABRIC] if stack.wanted and FABRIC not in units(stack) else []


def gpu_files(stack: Stack, archives: Mapping[str, Archive], keys: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    lines = {
        "/etc/modprobe.d/headnode-gpu.conf": stack.values(Kind.MODPROBE),
        "/etc/modules-load.d/headnode-gpu.conf": stack.values(Kind.MODULE),
        "/etc/sysctl.d/91-headnode-containers.conf": stack.values(Kind.SYSCTL),
    }
    for path, found in lines.items():
        if found:
            yield path, (MADE + "".join(f"{line}\n" for line in found)).encode()
    if pins := stack.values(Kind.PIN):
        yield "/etc/apt/preferences.d/headnode", (MADE + preferences(pins)).encode()
    for name, archive in archives.items():
        yield f"/etc/apt/sources.list.d/headnode-{name}.sources", (MADE + to_text([source_of(name, archive)])).encode()
        if name in keys:
            yield key_path(name, archive), keys[name]


def source_of(name: str, archive: Archive, signed_by: str | None = None) -> Source:
    """The archive as apt reads it; on the node unless a path is given, with the key beside its other keys."""
    return Source((archive.uri,), (archive.suite,), archive.components, signed_by or key_path(name, archive))


def key_path(name: str, archive: Archive) -> str:
    return f"{KEYRINGS}/headnode-{name}{'.asc' if archive.key.endswith('.asc') else '.gpg'}"
