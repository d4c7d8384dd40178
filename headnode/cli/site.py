"""headnode init, headnode site."""

import json
import sys
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import click

from headnode.cli.common import confirm, context, note, root_of, warn, yes_option
from headnode.errors import HeadnodeError, InvalidField, counted, shown


@click.command()
@click.option("--cluster", help="Name of the cluster, such as demo.")
@click.option("--domain", help="DNS domain of the cluster, such as demo.lan.")
@click.option("--provision-interface", default="", help="Interface that nodes boot from; never the one to the outside.")
@click.option("--provision", default="10.20.0.0/16", show_default=True, help="Network that nodes boot on.")
@click.option("--management-interface", default="", help="Interface that leads to the BMCs; - for none.")
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
        given = ask(given, found)
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
    from headnode import sitevalues

    try:
        return IPv4Network(str(sitevalues.network(text)))
    except ValueError as error:
        raise InvalidField(field, text, str(error)) from None


def checked(given: Any) -> Any:
    """Cluster and domain have no sensible default, and are checked before anything is written."""
    from dataclasses import replace

    from headnode import fields
    from headnode.workflows.init import NONE

    if not given.cluster:
        raise InvalidField("cluster", "", "give the cluster a name with --cluster, such as demo")
    if not given.domain:
        raise InvalidField("domain", "", "give the cluster's DNS domain with --domain, such as demo.lan")
    fields.host_name(given.cluster, field="cluster")
    fields.domain_name(given.domain)
    return replace(given, management_interface="") if given.management_interface == NONE else given


def ask(given: Any, found: Any) -> Any:
    """The same questions as the flags, with the proposals as defaults; a wrong answer is asked for again."""
    from dataclasses import replace

    from headnode import fields
    from headnode.workflows.init import NONE, safe_interface, warnings

    def interface(text: str) -> str:
        return NONE if text == NONE else safe_interface(text, found, field="interface")

    given = replace(
        given,
        cluster=asked("Name of the cluster", given.cluster or "cluster", fields.host_name),
        domain=asked("DNS domain", given.domain or "cluster.lan", fields.domain_name),
        provision_interface=asked(
            "Interface that nodes boot from",
            given.provision_interface or None,
            lambda text: safe_interface(text, found, field="interface"),
        ),
        provision=asked("Network that nodes boot on", str(given.provision), lambda text: network("provision", text)),
        management_interface=asked(
            f"Interface that leads to the BMCs ({NONE} for none)", given.management_interface or NONE, interface
        ),
    )
    if given.management_interface != NONE:
        question = "Network that the BMCs are on"
        given = replace(given, management=asked(question, str(given.management), lambda t: network("management", t)))
    return replace(given, warnings=tuple(warnings(given, found)))


def asked(question: str, default: str | None, check: Callable[[str], Any]) -> Any:
    def judged(text: str) -> Any:
        try:
            return check(text)
        except InvalidField as error:
            raise click.UsageError(f"{shown(text)}: {error.expected}") from None

    return click.prompt(question, default=default, value_proc=judged, err=True)


@click.group()
def site() -> None:
    """Check and describe site.yaml.

    \b
    Examples:
      headnode site check
      headnode site schema > site.schema.json
    """


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
