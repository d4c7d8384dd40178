"""headnode nodes, show, set, retire, events."""

from typing import Any

import click

from headnode.cli.common import (
    NodeSetType,
    cell,
    confirm,
    context,
    dry_run_option,
    emit,
    note,
    output_option,
    to_csv,
    to_table,
    to_yaml,
    yes_option,
)
from headnode.errors import counted


@click.command()
@click.argument("nodeset", required=False, type=NodeSetType())
@output_option()
@click.pass_context
def nodes(ctx: click.Context, nodeset: str | None, output: str) -> None:
    """List nodes.

    \b
    Examples:
      headnode nodes
      headnode nodes gpu[01-16] -o wide
      headnode nodes @a100 -o json
      headnode nodes -o name | xargs …
    """
    from headnode.workflows import choosing

    found = [choosing.document(node) for node in choosing.select(context(ctx).only_looking(), nodeset)]
    if not found and output in ("table", "wide"):
        note("No nodes yet: 'headnode enroll --help' says how to add some.")
        return
    emit(found, output, ["name", "state", "profile", "address", "mac", "bmc", "rack", "position"],
         ["intent", "groups", "locked", "reason"])  # fmt: skip


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--hardware", is_flag=True, help="What it is made of, as it was last inspected, instead.")
@output_option()
@click.pass_context
def show(ctx: click.Context, nodeset: str, hardware: bool, output: str) -> None:
    """Show everything about a node, and where each value comes from.

    A value comes from the node itself, one of its groups, its profile, a parent profile, the site's defaults
    or from what Headnode ships; the nearest wins.

    \b
    Examples:
      headnode show gpu01
      headnode show gpu01 -o json
      headnode show gpu[01-08] --hardware
    """
    import json

    from headnode.workflows import choosing
    from headnode.workflows import nodes as workflow

    at = context(ctx)
    nodes = choosing.select(at, nodeset)
    found = workflow.hardware(at, nodes) if hardware else [workflow.description(at.site, node) for node in nodes]
    if len(found) < len(nodes):
        note(f"{len(nodes) - len(found)} of them have not been inspected yet.")
    if output == "json":
        click.echo(json.dumps(found if len(found) != 1 else found[0], indent=2))
    elif output == "yaml":
        click.echo(to_yaml(found if len(found) != 1 else found[0]), nl=False)
    else:
        for document in found:
            (show_hardware if hardware else show_one)(document, output)


def show_hardware(document: dict[str, Any], output: str) -> None:
    from headnode.workflows.hardware import shown

    if output == "name":
        click.echo(document["name"])
        return
    report = shown(document["hardware"])
    rows = [{"what": title, "value": value} for title, value in report.facts]
    if output == "csv":
        click.echo(to_csv(rows), nl=False)
        return
    click.echo(f"{document['name']}\n\n{to_table(rows, ['what', 'value'])}", nl=False)
    for table in report.tables:
        lines = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        click.echo(f"\n{table.title}: {table.total}\n{to_table(lines, table.columns)}", nl=False)
    click.echo()


def show_one(document: dict[str, Any], output: str) -> None:
    if output == "name":
        click.echo(document["name"])
        return
    rows = [
        {"field": key, "value": cell(found["value"]), "from": found["source"]}
        for key, found in document["effective"].items()
    ]
    if output == "csv":
        click.echo(to_csv(rows), nl=False)
        return
    reason = f" ({document['reason']})" if document["reason"] else ""
    click.echo(f"{document['name']}: {document['state']}{reason}, boots to {document['intent']}\n")
    click.echo(to_table(rows, ["field", "value", "from"]), nl=False)


@click.command("set")
@click.argument("nodeset", type=NodeSetType())
@click.argument("assignments", nargs=-1, required=True, metavar="KEY=VALUE...")
@dry_run_option
@yes_option
@click.option("--no-publish", is_flag=True, help="Only write the inventory; 'headnode publish' makes it live.")
@click.pass_context
def set_(
    ctx: click.Context, nodeset: str, assignments: tuple[str, ...], dry_run: bool, yes: bool, no_publish: bool
) -> None:
    """Change fields of nodes.

    Shows what changes, field by field, and asks. A field is one of profile, rack, position, groups, mac, address, bmc,
    bmc_mac, locked, NETWORK_mac for a port on another network, or any setting of a profile; an empty value takes the
    node's own value away.

    \b
    Examples:
      headnode set gpu[01-08] profile=gpu groups=a100
      headnode set gpu07 kernel_args='pci=realloc quiet'
      headnode set gpu07 kernel_args= --yes
    """
    from headnode.workflows import choosing
    from headnode.workflows import nodes as workflow

    at = context(ctx)
    wanted = workflow.parse_assignments(at.site, assignments)
    chosen = choosing.select(at, nodeset)
    planned = workflow.set_fields(at, [node.name for node in chosen], wanted, rehearsal=True)
    if not planned:
        note("Nothing to do: these nodes are like that already.")
    else:
        rows = [
            {"node": edit.node, "field": edit.field, "now": cell(edit.before), "then": cell(edit.after)}
            for edit in planned
        ]
        click.echo(to_table(rows, ["node", "field", "now", "then"]), nl=False)
    if dry_run:
        note("Dry run: nothing was changed.")
        return
    if planned:
        confirm(f"Change {counted(len({edit.node for edit in planned}), 'node')}?", yes)
        done = workflow.set_fields(at, [node.name for node in chosen], wanted)
        note(f"Changed {counted(len({edit.node for edit in done}), 'node')}.")
    if not no_publish:
        from headnode.cli.publish import publish_after_change

        publish_after_change(at)


@click.command()
@click.argument("nodeset", type=NodeSetType())
@dry_run_option
@yes_option
@click.pass_context
def retire(ctx: click.Context, nodeset: str, dry_run: bool, yes: bool) -> None:
    """Take nodes out of the cluster for good.

    Their MAC, address and BMC are free again and their files are removed from the boot server. The name can be enrolled
    again. What was asked of them and how that ended stays on record; other events go after database.keep_days.

    \b
    Examples:
      headnode retire gpu07 --dry-run
      headnode retire gpu[07-08]
    """
    from headnode.cli.publish import publish_after_change
    from headnode.nodeset import fold
    from headnode.workflows import choosing
    from headnode.workflows import nodes as workflow

    at = context(ctx)
    names = [node.name for node in choosing.select(at, nodeset)]
    workflow.retire(at, names, rehearsal=True)
    if dry_run:
        note(f"Would retire {counted(len(names), 'node')}: {fold(names)}. Nothing was changed.")
        return
    confirm(f"Retire {counted(len(names), 'node')} ({fold(names)})?", yes)
    workflow.retire(at, names)
    note(f"Retired {fold(names)}.")
    publish_after_change(at)


@click.command()
@click.argument("nodeset", required=False, type=NodeSetType())
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, newest last.")
@output_option()
@click.pass_context
def events(ctx: click.Context, nodeset: str | None, limit: int, output: str) -> None:
    """Show what happened.

    \b
    Examples:
      headnode events
      headnode events gpu[01-16]
      headnode events gpu07 --limit 200 -o json
    """
    from headnode.workflows import choosing

    at = context(ctx).only_looking()
    names = None if nodeset is None else [node.name for node in choosing.select(at, nodeset, retired=True)]
    found = [
        {
            "at": event.at.isoformat(timespec="seconds") if event.at else None,
            "name": event.node,
            "kind": event.kind,
            "severity": event.severity.value,
            "message": event.message,
            "actor": event.actor,
            "cause": event.cause,
            "data": dict(event.data),
        }
        for event in at.inventory.events(names, limit=limit)
    ]
    if output == "name":
        # Each node that something happened to, once; what concerns all of them has no name.
        found = [{"name": name} for name in dict.fromkeys(item["name"] for item in found) if name]
    emit(found, output, ["at", "name", "kind", "message", "actor"], ["severity", "cause"])
