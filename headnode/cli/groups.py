"""headnode group: add, list, members, remove."""

from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import confirm, context, dry_run_option, emit, note, output_option, yes_option
from headnode.cli.people import split_names
from headnode.errors import counted

if TYPE_CHECKING:
    from headnode.directory.entries import Group

COLUMNS = ["name", "gid", "size", "description"]


def document(group: "Group") -> dict[str, Any]:
    return {
        "name": group.name,
        "gid": group.number,
        "size": len(group.members),
        "description": group.description or None,
        "members": list(group.members),
    }


@click.group()
def group() -> None:
    """Add and change groups of people.

    Everybody has a group of their own; these are the others. A GID is given once and never to another group.

    \b
    Examples:
      headnode group add vision --description "computer vision"
      headnode group members vision --add alice,bob
      headnode group list
    """


@group.command()
@click.argument("name")
@click.option("--gid", type=int, help="This number, instead of the next free one.")
@click.option("--description", default="", help="What it is for.")
@output_option()
@dry_run_option
@click.pass_context
def add(ctx: click.Context, name: str, gid: int | None, description: str, output: str, dry_run: bool) -> None:
    """Add a group.

    \b
    Examples:
      headnode group add vision --description "computer vision"
      headnode group add legacy --gid 30100
    """
    from headnode.workflows import people

    made = people.add_group(context(ctx), name, gid, description, rehearsal=dry_run)
    emit([document(made)], output, COLUMNS, ["members"])
    if dry_run:
        note(f"Dry run: the group {name} would be added; nothing was changed.")
        return
    note(f"Added the group {made.name} with GID {made.number}.")


@group.command("list")
@output_option()
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """List groups.

    \b
    Examples:
      headnode group list
      headnode group list -o json
    """
    from headnode.workflows import people

    with people.directory(context(ctx)) as found:
        rows = [document(item) for item in sorted(found.groups(), key=lambda item: item.number)]
    emit(rows, output, COLUMNS, ["members"])


@group.command()
@click.argument("name")
@click.option("--add", "joining", default="", help="People who become members, with commas.")
@click.option("--remove", "leaving", default="", help="People who are members no more, with commas.")
@output_option()
@dry_run_option
@click.pass_context
def members(ctx: click.Context, name: str, joining: str, leaving: str, output: str, dry_run: bool) -> None:
    """List or change the members of a group.

    \b
    Examples:
      headnode group members vision
      headnode group members vision --add alice,bob --remove carol
    """
    from headnode.workflows import people

    at = context(ctx)
    add, remove = split_names(joining), split_names(leaving)
    if add or remove:
        found = people.change_members(at, name, add, remove, rehearsal=dry_run)
    else:
        with people.directory(at) as directory:
            found = directory.group(name)
    rows = [{"name": member, "group": name} for member in found.members]
    emit(rows, output, ["name"])
    if dry_run and (add or remove):
        joins = [who for who in add if who not in found.members]
        leaves = [who for who in remove if who in found.members]
        note(f"Dry run: would add {', '.join(joins) or 'nobody'} and remove {', '.join(leaves) or 'nobody'}.")


@group.command()
@click.argument("name")
@dry_run_option
@yes_option
@click.pass_context
def remove(ctx: click.Context, name: str, dry_run: bool, yes: bool) -> None:
    """Remove a group.

    Its GID is never given to another; files that belong to it stay.

    \b
    Examples:
      headnode group remove vision
    """
    from headnode.workflows import people

    at = context(ctx)
    found = people.remove_group(at, name, rehearsal=True)
    note(f"{name} has {counted(len(found.members), 'member')} and the GID {found.number}, which is never given again.")
    if dry_run:
        note("Dry run: nothing was changed.")
        return
    confirm(f"Remove the group {name}?", yes)
    people.remove_group(at, name)
    note(f"Removed the group {name}.")
