"""headnode sensors, sel, bmc."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import (
    NodeSetType,
    confirm,
    confirm_count,
    context,
    emit,
    given_password,
    note,
    output_option,
    yes_option,
)
from headnode.cli.folded import end, fanout_option, finish, folded_option, progress
from headnode.errors import InvalidInput, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headnode.bmclink import Answer


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--match", help="Only sensors whose name contains this text.")
@fanout_option
@output_option()
@click.pass_context
def sensors(ctx: click.Context, nodeset: str, match: str | None, fanout: int | None, output: str) -> None:
    """Read temperatures, fans, voltages and watts.

    \b
    Examples:
      headnode sensors gpu07
      headnode sensors @rack1 --match Temp
      headnode sensors gpu[01-16] -o csv
    """
    answers = ask_all(ctx, nodeset, {"verb": "sensors", "fanout": fanout})
    rows = [row for row in flattened(answers) if match is None or match.lower() in str(row["sensor"]).lower()]
    emit(rows, output, ["name", "sensor", "value", "unit", "health"], ["states"])
    end(ctx, answers)


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--clear", is_flag=True, help="Empty the logs instead of printing them.")
@fanout_option
@output_option()
@yes_option
@click.pass_context
def sel(ctx: click.Context, nodeset: str, clear: bool, fanout: int | None, output: str, yes: bool) -> None:
    """Read or clear the event logs that BMCs keep.

    \b
    Examples:
      headnode sel gpu07
      headnode sel gpu[01-16] -o json
      headnode sel gpu[01-16] --clear
    """
    if clear:
        from headnode.workflows import choosing
        from headnode.workflows import power as workflow

        at = context(ctx)
        nodes = choosing.select(at, nodeset)
        workflow.refuse_untouchable(at.site, nodes)
        confirm_count("Clear the event log of", nodes, yes)
        shown = "folded" if output == "table" else output
        finish(ctx, workflow.change(at, nodes, {"verb": "sel-clear", "fanout": fanout}, progress()), shown)
        return
    answers = ask_all(ctx, nodeset, {"verb": "sel", "fanout": fanout})
    emit(flattened(answers), output, ["name", "at", "source", "message", "health"], ["id"])
    end(ctx, answers)


def ask_all(ctx: click.Context, nodeset: str, request: dict[str, Any]) -> "Sequence[Answer]":
    from headnode.workflows.asking import ask_set

    return ask_set(context(ctx), nodeset, request, progress())


def flattened(answers: "Sequence[Answer]") -> list[dict[str, Any]]:
    """One row for each thing that each node said."""
    return [{"name": answer.name, **item} for answer in answers if answer.ok for item in answer.value]


@click.group()
def bmc() -> None:
    """Describe BMCs, change their passwords, blink their lights.

    \b
    Examples:
      headnode bmc show gpu[01-16]
      headnode bmc set-password gpu[01-16] --random
      headnode bmc identify gpu07
    """


@bmc.command()
@click.argument("nodeset", type=NodeSetType())
@fanout_option
@output_option()
@click.pass_context
def show(ctx: click.Context, nodeset: str, fanout: int | None, output: str) -> None:
    """Show what BMCs say about themselves.

    \b
    Examples:
      headnode bmc show gpu07
      headnode bmc show gpu[01-16] -o csv
    """
    from headnode.workflows import choosing

    answers = ask_all(ctx, nodeset, {"verb": "identity", "fanout": fanout})
    where = {node.name: node.bmc.address for node in choosing.select(context(ctx), nodeset) if node.bmc}
    keys = ("driver", "vendor", "model", "serial", "firmware", "guid")
    rows = [
        {"name": answer.name, "address": where.get(answer.name), "status": answer.status}
        | {key: (answer.value or {}).get(key) or None for key in keys}
        for answer in answers
    ]
    emit(rows, output, ["name", "address", "status", "driver", "vendor", "model", "serial", "firmware"], ["guid"])
    end(ctx, answers)


@bmc.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--for", "seconds", type=click.IntRange(1, 255), default=60, show_default=True, help="Seconds.")
@click.option("--stop", is_flag=True, help="Stop blinking.")
@fanout_option
@folded_option
@click.pass_context
def identify(ctx: click.Context, nodeset: str, seconds: int, stop: bool, fanout: int | None, output: str) -> None:
    """Blink the locator light, to find a machine in its rack.

    \b
    Examples:
      headnode bmc identify gpu07
      headnode bmc identify gpu07 --stop
    """
    request = {"verb": "identify", "seconds": 0 if stop else seconds, "fanout": fanout}
    finish(ctx, ask_all(ctx, nodeset, request), output)


@bmc.command("set-password")
@click.argument("nodeset", type=NodeSetType())
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the password on its first line; never given as an argument.",
)
@click.option("--random", "rotate", is_flag=True, help="A new random password for each BMC; Headnode alone knows it.")
@click.option("--known", is_flag=True, help="The BMCs have this password already: only prove it and remember it.")
@fanout_option
@folded_option
@yes_option
@click.pass_context
def set_password(
    ctx: click.Context,
    nodeset: str,
    password_file: Path | None,
    rotate: bool,
    known: bool,
    fanout: int | None,
    output: str,
    yes: bool,
) -> None:
    """Change the password at BMCs, or tell Headnode the one they have.

    A new password is proven by logging in with it; until then the old one is kept, so that an interrupted change locks
    nobody out. Passwords that BMCs are shipped with are refused.

    \b
    Examples:
      headnode bmc set-password gpu[01-16] --random
      headnode bmc set-password gpu07 --password-file /root/new.password
      headnode bmc set-password gpu07 --known --password-file /root/bmc.password
    """
    from headnode.workflows import bmcpasswords as workflow
    from headnode.workflows import choosing

    at = context(ctx)
    nodes = choosing.select(at, nodeset)
    if rotate and (known or password_file):
        raise InvalidInput("--random makes its own passwords; leave --known and --password-file away")
    instead = "--password-file FILE or --random"
    password = None if rotate else given_password(password_file, "BMC password", instead, twice=not known)
    if known:
        confirm(f"Remember the password of {counted(len(nodes), 'BMC')}?", yes)
    else:
        confirm_count("Change the BMC password of", nodes, yes)
    act = workflow.adopt if known else workflow.rotate
    answers = act(at, nodes, password, fanout=fanout, on_answer=progress())
    finish(ctx, answers, output)
    note("The new passwords are sealed in the inventory.")
