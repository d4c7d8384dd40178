"""headnode init, headnode site."""

import json
import sys
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import click

from headnode.cli.common import confirm, context, note, root_of, warn, yes_option
from headnode.errors import HeadnodeError, InvalidField, counted


@click.command()
@click.option("--cluster", help="Name of the cluster, such as demo.")
@click.option("--domain", help="DNS domain of the cluster, such as demo.lan.")
@click.option("--provision-interface", default="", help="Interface that nodes boot from; never the one to the outside.")
@click.option("--provision", default="10.20.0.0/16", show_default=True, help="Network that nodes boot on.")
@click.option("--management-interface", default="", help="Interface that leads to the BMCs.")
@click.option("--management", default="10.21.0.0/16", show_default=True, help="Network that the BMCs are on.")
@click.option("--dns", multiple=True, help="Name server to forward to; repeat for more.")
@yes_option
@click.pass_context
def init(ctx: click.Context, /, yes: bool, **flags: Any) -> None:
    """Write a first site.yaml for this machine.

    Looks at the machine's interfaces, proposes which to use and says why, then writes a commented
    /etc/headnode/site.yaml, the key for secrets, the certificate authority and an empty inventory.
    Nothing that exists is overwritten.

    \b
    Examples:
      headnode init
      headnode init --yes --cluster demo --domain demo.lan \\
          --provision-interface eth1 --provision 10.20.0.0/16
      HEADNODE_ROOT=/tmp/lab headnode init --yes --cluster lab --domain lab.test \\
          --provision-interface hnprov0
    """
    from headnode import machine
    from headnode.paths import Paths
    from headnode.workflows import init as workflow

    paths = Paths(root_of(ctx))
    workflow.refuse_existing(paths)
    found = machine.interfaces()
    given = workflow.propose(answers(flags), found)
    for reason in given.reasons:
        note(reason)
    if not yes and sys.stdin.isatty():
        given = workflow.propose(ask(given), found)
    given = checked(given)
    workflow.refuse_unsafe(given, found)
    text = workflow.site_text(given)
    warn(given.warnings)
    if not yes:
        click.echo(text)
    confirm(f"Write this to {paths.site_file}?", yes)
    workflow.create(paths, given)
    note(f"Wrote {paths.site_file}. Next: 'headnode enroll --help', then 'headnode check'.")


def answers(flags: dict[str, Any]) -> Any:
    from headnode import fields
    from headnode.workflows.init import Proposal

    return Proposal(
        cluster=flags["cluster"] or "",
        domain=flags["domain"] or "",
        provision_interface=flags["provision_interface"],
        provision=network("provision", flags["provision"]),
        management_interface=flags["management_interface"],
        management=network("management", flags["management"]),
        dns=tuple(IPv4Address(fields.ip_address(text, field="dns")) for text in flags["dns"]),
    )


def network(field: str, text: str) -> IPv4Network:
    from headnode import site

    try:
        return IPv4Network(str(site.network(text)))
    except ValueError as error:
        raise InvalidField(field, text, str(error)) from None


def checked(given: Any) -> Any:
    """Cluster and domain have no sensible default, and are checked before anything is written."""
    from headnode import fields

    if not given.cluster:
        raise InvalidField("cluster", "", "give the cluster a name with --cluster, such as demo")
    if not given.domain:
        raise InvalidField("domain", "", "give the cluster's DNS domain with --domain, such as demo.lan")
    fields.host_name(given.cluster, field="cluster")
    fields.domain_name(given.domain)
    return given


def ask(given: Any) -> Any:
    """The same questions as the flags, with the proposals as defaults."""
    from dataclasses import replace

    return replace(
        given,
        cluster=click.prompt("Name of the cluster", default=given.cluster or "cluster", err=True),
        domain=click.prompt("DNS domain", default=given.domain or "cluster.lan", err=True),
        provision_interface=click.prompt("Interface that nodes boot from", default=given.provision_interface, err=True),
        provision=network(
            "provision", click.prompt("Network that nodes boot on", default=str(given.provision), err=True)
        ),
        management_interface=click.prompt(
            "Interface that leads to the BMCs (empty for none)", default=given.management_interface, err=True
        ),
        management=network(
            "management",
            click.prompt("Network that the BMCs are on", default=str(given.management), err=True),
        ),
    )


@click.group()
def site() -> None:
    """Check and describe site.yaml."""


@site.command()
@click.pass_context
def check(ctx: click.Context) -> None:
    """Read site.yaml and say what is wrong with it.

    It also looks whether the nodes that are enrolled still fit: their profiles, layouts and networks.

    \b
    Examples:
      headnode site check
    """
    from headnode.workflows.fit import refuse_misfits

    at = context(ctx)
    found = at.site
    if found.database.url or at.paths.database.exists():
        try:
            enrolled = at.inventory.nodes()
        except HeadnodeError as error:
            warn([f"the nodes could not be compared with it: {error.message}"])
        else:
            refuse_misfits(found, enrolled)
    parts = [counted(len(found.networks), "network"), counted(len(found.profiles), "profile"),
             counted(len(found.layouts), "layout")]  # fmt: skip
    note(f"{at.paths.site_file}: cluster {found.cluster}, {', '.join(parts)}: no problems.")


@site.command()
def schema() -> None:
    """Print the JSON schema of site.yaml, for editors.

    \b
    Examples:
      headnode site schema > site.schema.json
    """
    from headnode.site import Site

    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Site.model_json_schema()}
    click.echo(json.dumps(document, indent=2))
