"""The NVIDIA stack of nodes: solved from what the agent reported and what the settings want."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headnode.effective import effective
from headnode.errors import HeadnodeError, InvalidInput
from headnode.model import Node, State
from headnode.workflows.context import Context
from images.gpufiles import source_of
from images.nvidia.machine import Machine, Wanted, machine_of
from images.nvidia.rules import names
from images.nvidia.solve import solve
from images.nvidia.stack import Kind, Stack
from images.sources import Source


@dataclass(frozen=True)
class Planned:
    machine: Machine
    stack: Stack
    inspected: bool


def planned(context: Context, node: Node) -> Planned:
    """A node that was never inspected has no GPUs that anybody knows of."""
    facts = context.inventory.hardware(node)
    asked = wanted(context, {key: found.value for key, found in effective(context.site, node).items()})
    machine = machine_for([facts] if facts else [], asked)
    return Planned(machine, solve(machine, asked), facts is not None)


def machine_for(facts: Sequence[Mapping[str, Any]], asked: Wanted) -> Machine:
    """Where nothing of NVIDIA's is wanted, a GPU that nobody knows is nobody's problem."""
    return Machine() if asked.none else machine_of(facts, names())


def wanted(context: Context, settings: dict[str, Any]) -> Wanted:
    return Wanted.of(settings, context.site.packages.archives)


def stack_of(context: Context, node: Node) -> Stack:
    return planned(context, node).stack


def settings_of(context: Context, node: Node) -> dict[str, Any]:
    """What a node is in effect, with the kernel arguments that its GPUs need."""
    settings = {key: found.value for key, found in effective(context.site, node).items()}
    solved = stack_of(context, node).values(Kind.KERNEL)
    return {**settings, "kernel_args": tuple(dict.fromkeys([*(settings["kernel_args"] or ()), *solved]))}


def stack_of_profile(context: Context, profile: str | None, settings: dict[str, Any]) -> Stack:
    """One stack for every inspected node of a profile: an image must do for all of them."""
    nodes = [n for n in context.inventory.nodes() if n.profile == profile and n.state is not State.RETIRED]
    facts = [found for node in nodes if (found := context.inventory.hardware(node))]
    asked = wanted(context, settings)
    return solve(machine_for(facts, asked), asked)


def archive_sources(context: Context, used: Iterable[str]) -> list[Source]:
    """Archives as this machine's apt reads them while an image is built."""
    known = context.site.packages.archives
    return [source_of(name, known[name], str(key_file(context, name))) for name in used]


def archive_keys(context: Context, used: Iterable[str]) -> dict[str, bytes]:
    return {name: key_file(context, name).read_bytes() for name in used}


def key_file(context: Context, name: str) -> Path:
    path = Path(context.site.packages.archives[name].key)
    if not path.is_file():
        raise InvalidInput(
            f"packages.archives.{name}.key is '{path}', and there is no such file",
            hint="put the public key that signs the archive there",
        )
    return path


def refuse_unfit_image(stack: Stack, image: str, packages: Iterable[str]) -> None:
    """A node must get what was solved for it; an image cannot be added to while it is unpacked."""
    there = set(packages)
    missing = [name for name in stack.packages if not name.startswith("linux-headers-") and name not in there]
    if missing:
        raise HeadnodeError(
            f"image {image} lacks what this node's GPUs need: {', '.join(missing)}",
            hint=f"build it again now that the node is inspected: headnode image build {image.partition('@')[0]}",
        )


def refuse_impossible(context: Context, nodes: Sequence[Node]) -> None:
    """Contradictions are said before anything is changed."""
    for node in nodes:
        try:
            stack_of(context, node)
        except InvalidInput as error:
            raise InvalidInput(f"{node.name}: {error.message}", hint=error.hint) from error


def expected(stack: Stack) -> dict[str, Any]:
    """What the first report of an installed system must show of its GPUs."""
    checks = dict(value.partition("=")[::2] for value in stack.values(Kind.CHECK))
    if not stack.wanted:
        return {}
    return {"count": int(checks["gpu-count"]), "branch": stack.branch, "fabric": "fabricmanager-version" in checks}
