"""headnode enroll."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import (
    NodeSetType,
    ProfileType,
    confirm,
    context,
    dry_run_option,
    emit,
    emit_start,
    note,
    output_option,
    printable,
    warn,
    yes_option,
)
from headnode.errors import InvalidInput, counted, shown

if TYPE_CHECKING:
    from headnode.workflows.context import Context
    from headnode.workflows.enroll import Plan
    from headnode.workflows.sheet import Row


@click.command()
@click.argument("names", required=False, type=NodeSetType())
@click.option("--from", "source", metavar="FILE", help="CSV or YAML file with a row for each node; - reads the input.")
@click.option("--mac", help="MAC of the port it boots from; a list in quotes for several nodes.")
@click.option("--bmc", help="Address of its BMC; 10.21.0.[11-26] for several nodes.")
@click.option("--bmc-mac", help="MAC of its BMC, where Headnode hands out BMC addresses (dhcp: true).")
@click.option("--profile", type=ProfileType(), help="What kind of node it is, by its name in site.yaml.")
@click.option("--rack", help="Rack it is in.")
@click.option("--position", help="Rack unit it is in, counted from the bottom.")
@click.option("--address", help="Fixed address on the provision network, instead of the next free one.")
@click.option("--groups", help="Groups it belongs to.")
@click.option("--seen", is_flag=True, help="Take the MAC of the unknown machine that asked; with --mac, of that one.")
@click.option(
    "--bmc-password-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the BMC password on its first line; never given as an argument.",
)
@click.option("--bmc-scan", metavar="NETWORK", help="Look for BMCs in this part of the management network.")
@click.option("--bmc-user", help="With --bmc-scan: user name at the BMCs.")
@click.option("--rotate", is_flag=True, help="With --bmc-scan: give BMCs with a vendor's password a random one.")
@click.option("--no-publish", is_flag=True, help="Only write the inventory; 'headnode publish' makes it live.")
@output_option()
@dry_run_option
@yes_option
@click.pass_context
def enroll(
    ctx: click.Context,
    /,
    names: str | None,
    source: str | None,
    output: str,
    dry_run: bool,
    yes: bool,
    no_publish: bool,
    seen: bool,
    bmc_password_file: Path | None,
    bmc_scan: str | None,
    bmc_user: str | None,
    rotate: bool,
    **columns: str | None,
) -> None:
    """Add nodes to the cluster.

    Each node gets a name, a profile and the next free address, and may boot from the network from then on. All rows
    are taken or none; running it again changes nothing.

    \b
    Examples:
      headnode enroll gpu01 --mac 52:54:00:aa:00:01 --bmc 10.21.0.11 --profile gpu
      headnode enroll --from nodes.csv --dry-run
      headnode enroll --from nodes.yaml --bmc-password-file /root/bmc.password --yes
      some-inventory-tool | headnode enroll --from - --yes
      headnode enroll --bmc-scan 10.21.0.0/24
      headnode enroll gpu[01-16] --bmc-scan 10.21.0.0/24 --rotate -o csv > nodes.csv

    The columns are name, mac, bmc, profile, rack, position, address, groups and, for ports on other
    networks, NETWORK_mac. A row may stand for many nodes: name gpu[01-16] with sixteen MACs.

    A scan enrols nothing: it asks who is there, logs in with the password given or the vendors' own, and proposes
    rows to fill in. BMCs that still have a vendor's password are left out unless --rotate replaces it.
    """  # fmt: skip
    from headnode.workflows import enroll as workflow

    at = context(ctx)
    if bmc_scan is not None:
        if dry_run:
            raise InvalidInput(
                "--dry-run cannot be used with --bmc-scan: a scan logs in to BMCs and keeps what it finds",
                hint="without --rotate it changes nothing on them, and it never enrols",
            )
        scan_bmcs(ctx, at, bmc_scan, names, bmc_user, bmc_password_file, rotate, output)
        return
    if seen:
        from headnode.workflows.discovery import pick_seen

        columns["mac"] = pick_seen(at, columns.get("mac"))
    rows = rows_from(at, names, source, columns)
    made = workflow.plan(at.site, rows, at.inventory.nodes(retired=True))
    show_plan(made, output, always=dry_run or not yes)
    if made.problems:
        raise InvalidInput("\n".join(made.problems), hint="nothing was enrolled; correct these and run it again")
    without = lacking_password(at, made)
    sealed = password_from_file(at, bmc_password_file) if without else None
    if dry_run:
        note("Dry run: nothing was changed.")
        return
    if made.new:
        confirm(f"Enrol {counted(len(made.new), 'node')}?", yes)
        made = workflow.enroll(at, rows, sealed or (typed_password(at, yes) if without else None))
        note(f"Enrolled {counted(len(made.new), 'node')}.")
    else:
        note("Nothing to do: all of these are enrolled already.")
    if not no_publish:
        from headnode.cli.publish import publish_after_change

        publish_after_change(at)


def scan_bmcs(ctx: click.Context, at: "Context", network: str, names: str | None, user: str | None, file: Path | None,
              rotate: bool, output: str) -> None:  # fmt: skip
    """Say who is there, and propose rows to fill in."""
    from dataclasses import asdict

    from headnode import nodeset, vault
    from headnode.workflows import bmcscan
    from ipmi.readings import Credentials

    given = None
    if file is not None or user is not None:
        if file is None:
            raise InvalidInput("--bmc-user needs its password too: --bmc-password-file FILE")
        given = Credentials(user or at.site.bmc.user, vault.read_password(file))
    found = bmcscan.scan(at, network, given, rotate=rotate)
    if output == "csv":
        rows = bmcscan.proposals(found, nodeset.expand_in_order(names) if names else [])
        emit(rows, "csv", ["name"])
        note("Fill in the MAC of the port each node boots from (a BMC does not know it) and its profile, then")
        note("enrol them: headnode enroll --from FILE. Their BMC passwords are known already.")
    else:
        rows = [{"name": item.node or item.address, **asdict(item)} for item in found]
        emit(rows, output, ["address", "status", "vendor", "model", "serial", "user", "password", "node"], ["trouble"])
        ready = sum(item.proposed for item in found)
        note(f"{ready} of {len(found)} BMCs can be enrolled; '-o csv' writes rows for them.")
    if troubled := [item for item in found if item.trouble]:
        for item in troubled:
            note(f"{item.address}: {item.trouble}")
        if any(item.status == "vendor default" for item in found):
            note("  hint: --rotate gives each of these a random password of its own")
        ctx.exit(1)


def rows_from(at: "Context", names: str | None, source: str | None, columns: dict[str, str | None]) -> "list[Row]":
    from headnode.workflows import sheet

    if (names is None) == (source is None):
        raise InvalidInput("say which nodes: either NAMES with --mac and --profile, or --from FILE")
    if source is None:
        values = {"name": names or "", **{key: value for key, value in columns.items() if value}}
        return sheet.expand(values, "command line")
    if given := [key for key, value in columns.items() if value]:
        raise InvalidInput(f"--{given[0]} cannot be used with --from: put it in the file as the column '{given[0]}'")
    (name,) = printable([source])  # it stands in every message about a row
    return sheet.read(sheet.decode(content(source), name), name, at.site)


def content(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"the file {shown(source)} cannot be read: {why}") from None


def show_plan(made: "Plan", output: str, *, always: bool) -> None:
    """The preview: rows with problems first, then the start of the rest."""
    from headnode.workflows.choosing import document
    from headnode.workflows.enroll import summary

    if not (always or made.problems):
        return
    if output not in ("table", "wide"):
        emit([document(node) for node in made.new], output, ["name"])
        return
    rows: list[dict[str, Any]] = [
        {
            "name": item.name,
            "verdict": item.verdict,
            "address": item.node.address if item.node else None,
            "profile": item.node.profile if item.node else None,
            "problem": "; ".join(item.problems) or None,
        }
        for item in made.worst_first
    ]
    emit_start(rows, ["name", "verdict", "address", "profile", "problem"])
    note(summary(made))


def lacking_password(at: "Context", made: "Plan") -> bool:
    """Whether there is a new BMC to which no scan has found the password."""
    from headnode.workflows.enroll import found_bmcs

    known = found_bmcs(at)
    return any(node.bmc and node.bmc.address not in known for node in made.new)


def password_from_file(at: "Context", file: Path | None) -> str | None:
    """The BMC password that was given, or the site's own, sealed at once."""
    from headnode import vault

    default = at.site.bmc.password_file
    if file is None and default is not None:
        file = at.paths.root / default.lstrip("/")
    return vault.seal(vault.read_password(file), at.paths.secret_key) if file is not None else None


def typed_password(at: "Context", yes: bool) -> str | None:
    from headnode import vault

    if not yes and sys.stdin.isatty():
        typed = click.prompt(
            "BMC password (empty: none yet)", hide_input=True, default="", show_default=False, err=True
        )
        if typed:
            return vault.seal(str(typed), at.paths.secret_key)
    warn(["no BMC password is known for these nodes; power and console need one (--bmc-password-file)"])
    return None
