"""headnode gpu: plan, rules."""

from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import NodeSetType, context, emit, note, output_option

if TYPE_CHECKING:
    from images.nvidia.rules import Architecture, Archive, Source


@click.group()
def gpu() -> None:
    """Show what nodes' GPUs need, and the rules behind it.

    \b
    Examples:
      headnode gpu plan gpu[01-08]
      headnode gpu rules
    """


@gpu.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--sources", is_flag=True, help="Also say where each rule is written down.")
@output_option()
@click.pass_context
def plan(ctx: click.Context, nodeset: str, sources: bool, output: str) -> None:
    """Show the NVIDIA stack of nodes, with the reason for each item.

    From the GPUs that 'headnode inspect' found, the node's OS and its nvidia settings. What contradicts itself is
    refused here as it is by 'headnode deploy', with the two facts that conflict.

    \b
    Examples:
      headnode gpu plan gpu01
      headnode gpu plan gpu[01-08] -o json
      headnode gpu plan gpu01 --sources
    """
    from headnode.workflows import gpu as workflow
    from headnode.workflows.choosing import select
    from images.nvidia.rules import rules

    at = context(ctx)
    rows: list[dict[str, Any]] = []
    for node in select(at, nodeset):
        found = workflow.planned(at, node)
        if not found.inspected:
            note(f"{node.name} was never inspected, so its GPUs are unknown; 'headnode inspect {node.name}' reads them")
        else:
            note(f"{node.name}: {found.stack.summary}")
        for item in found.stack.items:
            urls = [rules().sources[name].url for name in item.sources]
            rows.append({"node": node.name, "kind": item.kind.value, "value": item.value, "reason": item.reason,
                         "sources": urls})  # fmt: skip
    columns = ["node", "kind", "value", "reason", *(["sources"] if sources else [])]
    if rows or output not in ("table", "wide"):
        emit(rows, output, columns)


@gpu.command("rules")
@output_option()
@click.pass_context
def rules_(ctx: click.Context, output: str) -> None:
    """Print the rules: which GPU works with which branch, and which archive has it.

    \b
    Examples:
      headnode gpu rules
      headnode gpu rules -o yaml
    """
    from images.nvidia.rules import rules

    known = rules()
    rows = [architecture_row(one, known.sources) for one in known.architectures]
    rows += [archive_row(one, known.sources) for one in known.archives]
    emit(rows, output, ["rule", "about", "branches", "modules", "sources"])


def architecture_row(one: "Architecture", sources: "dict[str, Source]") -> dict[str, Any]:
    words = {"never": "proprietary only", "allowed": "open or proprietary", "needed": "open only"}
    return {
        "rule": "GPU",
        "about": f"{one.name} ({', '.join(one.chips)})",
        "branches": f"{one.first}-{one.last or ''}",
        "modules": words[one.open],
        "sources": [cited(sources[name]) for name in one.sources],
    }


def archive_row(one: "Archive", sources: "dict[str, Source]") -> dict[str, Any]:
    kinds = {number: [k for k in ("open", "proprietary") if getattr(b, k)] for number, b in one.branches.items()}
    return {
        "rule": "archive",
        "about": f"{one.os} {one.release}, {one.source}, names from its {one.names}",
        "branches": " ".join(f"{number} ({one.branches[number].version})" for number in one.branches),
        "modules": "; ".join(f"{number} {' or '.join(found)}" for number, found in kinds.items()),
        "sources": [cited(sources[name]) for name in one.sources],
    }


def cited(source: "Source") -> str:
    return f"{source.url} (read {source.read})" if source.read else source.url
