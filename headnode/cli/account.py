"""headnode account."""

from datetime import timedelta

import click

from headnode.cli.common import confirm, context, emit, note, output_option, yes_option


@click.group()
def account() -> None:
    """Say who may use the pages and the API.

    \b
    Examples:
      headnode account invite alice --role operator
      headnode account set alice --shut
      headnode account list
    """


@account.command("list")
@output_option()
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """List accounts.

    \b
    Examples:
      headnode account list
    """
    rows = [
        {"name": one.name, "role": one.role.value, "code": one.sealed_totp is not None,
         "state": "shut out" if one.disabled else "open", "created": one.created.isoformat(timespec="seconds")}
        for one in context(ctx).inventory.accounts.all()
    ]  # fmt: skip
    if not rows and output in ("table", "wide"):
        note("Nobody yet: 'headnode up' shows a link for the first admin; 'headnode account invite' adds others.")
        return
    emit(rows, output, ["name", "role", "code", "state", "created"])


@account.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "admin"]),
    default="viewer",
    show_default=True,
    help="What they may do: look, act on nodes, or everything.",
)
@click.option(
    "--for", "duration", default="2d", show_default=True, help="How long the link is good, such as 30m or 2d."
)
@click.pass_context
def invite(ctx: click.Context, name: str, role: str, duration: str) -> None:
    """Print a link with which somebody chooses a password.

    It works once. For an account that is there already it is a new password and no code at login any more: the way back
    in for somebody who is locked out.

    \b
    Examples:
      headnode account invite alice --role operator
      headnode account invite alice --for 30m
    """
    from headnode.accounts import Role
    from headnode.workflows import discovery, doors

    at = context(ctx)
    lasting = min(discovery.parse_duration(duration), timedelta(days=30))
    click.echo(f"{doors.address(at)}/join/{doors.invite(at, name, Role(role), lasting)}")
    note("This link works once; send it to nobody else.")


@account.command("set")
@click.argument("name")
@click.option("--role", type=click.Choice(["viewer", "operator", "admin"]), help="What they may do from now on.")
@click.option("--open/--shut", "enabled", default=None, help="Let them in again, or shut them out at once.")
@yes_option
@click.pass_context
def set_(ctx: click.Context, name: str, role: str | None, enabled: bool | None, yes: bool) -> None:
    """Change what somebody may do, or shut them out.

    \b
    Examples:
      headnode account set alice --role admin
      headnode account set alice --shut
    """
    from headnode.accounts import Role
    from headnode.workflows import doors

    at = context(ctx)
    confirm(f"Change the account '{name}'?", yes)
    made = doors.change_account(at, name, role=Role(role) if role else None, enabled=enabled)
    note(f"{made.name}: {made.role}{', shut out' if made.disabled else ''}.")
