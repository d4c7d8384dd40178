"""Finding BMCs on the management network: who answers a presence ping, who they are, and with which password.

Passwords that BMCs are shipped with open the door to anybody on that network: a BMC that still has one is proposed only
when it is given a random one at once (`rotate`).
"""

import asyncio
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headnode import vault
from headnode.errors import InvalidField, InvalidInput
from headnode.site import Site
from headnode.workflows import bmcs
from headnode.workflows.context import Context
from headnode.workflows.enroll import FOUND, found_bmcs
from ipmi import probe
from ipmi.bmc import Bmc
from ipmi.faults import BmcFault, WrongCredentials
from ipmi.ipmi_driver import IpmiBmc
from ipmi.passwords import VENDOR_DEFAULTS, is_vendor_default, new_password
from ipmi.readings import Credentials
from ipmi.rmcp.engine import IPMI_PORT, Engine

# Gentle: a BMC may lock an account after a few wrong tries, and counts them for each user name.
PAUSE = 0.2


@dataclass(frozen=True)
class Found:
    """One BMC that answered."""

    address: str
    status: str
    vendor: str = ""
    model: str = ""
    serial: str = ""
    firmware: str = ""
    user: str = ""
    # `given`, `vendor default` or `new, random`; never the password itself.
    password: str = ""
    node: str | None = None
    trouble: str = ""

    @property
    def proposed(self) -> bool:
        return self.status == "ok" and self.node is None


def inside_management(site: Site, text: str) -> str:
    """The range to scan; one that reaches outside the management network is refused."""
    net = site.management
    if net is None:
        raise InvalidInput("the site has no management network, and BMCs are looked for nowhere else")
    try:
        wanted = ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        raise InvalidField("bmc-scan", text, "use a network such as 10.21.0.0/24") from None
    if not wanted.subnet_of(net.cidr):
        raise InvalidField("bmc-scan", text, f"use a part of the management network {net.cidr}")
    return str(wanted)


def scan(
    context: Context, network: str, credentials: Credentials | None = None, *, rotate: bool = False
) -> list[Found]:
    """Every BMC there, in order of address; new passwords are sealed before anybody sees the result."""
    wanted = inside_management(context.site, network)
    known = {node.bmc.address: node.name for node in context.inventory.nodes() if node.bmc}
    return asyncio.run(scan_all(context, wanted, credentials, known, rotate))


def scan_with(context: Context, network: str, user: str | None, password: str | None, rotate: bool) -> list[Found]:
    """As `scan`, with a user and password as somebody typed them."""
    if user and not password:
        raise InvalidField("password", "", "a user name needs its password too")
    given = Credentials(user or context.site.bmc.user, password) if password else None
    return scan(context, network, given, rotate=rotate)


async def scan_all(
    context: Context, network: str, credentials: Credentials | None, known: dict[str, str], rotate: bool
) -> list[Found]:
    async with bmcs.fleet_of(context.site) as fleet:
        engine = fleet.engine
        addresses = await probe.scan(engine, network)
        strangers = [address for address in addresses if address not in known]
        before = found_bmcs(context)
        earlier = {
            address: [Credentials(user, vault.unseal(sealed, context.paths.secret_key))]
            for address, (user, sealed) in before.items()
        }
        looked = await asyncio.gather(
            *(look(context, engine, at, credentials, earlier.get(at, ()), rotate) for at in strangers)
        )
    found = {item.address: item for item in looked}
    enrolled = {at: Found(at, "enrolled", node=known[at]) for at in addresses if at in known}
    return [{**found, **enrolled}[address] for address in addresses]


async def look(
    context: Context,
    engine: Engine,
    address: str,
    credentials: Credentials | None,
    earlier: Sequence[Credentials],
    rotate: bool,
) -> Found:
    """`earlier` is what an earlier scan has set, or was about to set when it was interrupted."""
    try:
        bmc, used = await log_in(engine, address, [*earlier, *candidates(credentials)])
        identity = await bmc.identity()
        default = is_vendor_default(used.user, used.password)
        facts: dict[str, Any] = {
            "vendor": identity.vendor,
            "model": identity.model,
            "serial": identity.serial,
            "firmware": identity.firmware,
            "user": used.user,
        }
        if default and not rotate:
            trouble = "it has the password it was shipped with, which anybody knows"
            return Found(address, "vendor default", **facts, password="vendor default", trouble=trouble)  # noqa: S106
        if default:
            await renew(context, bmc, used, address)
        else:
            await asyncio.to_thread(remember, context, address, used)
        return Found(address, "ok", **facts, password="new, random" if default else "given")
    except BmcFault as fault:
        return Found(address, fault.status, trouble=fault.message)


async def log_in(engine: Engine, address: str, tried: Sequence[Credentials]) -> tuple[Bmc, Credentials]:
    for credentials in tried:
        link = await engine.link(address, credentials, port=IPMI_PORT)
        link.forgive()
        bmc = IpmiBmc(link)
        try:
            await bmc.power()
        except WrongCredentials:
            await asyncio.sleep(PAUSE)
            continue
        return bmc, credentials
    what = "the given password" if len(tried) == 1 else "any password that BMCs are shipped with"
    raise WrongCredentials(f"BMC {address} does not take {what}", hint="give its own: --bmc-user, --bmc-password-file")


def candidates(given: Credentials | None) -> list[Credentials]:
    """What was given, and nothing else; otherwise what makers ship, no user name twice in a row."""
    if given is not None:
        return [given]
    rounds: dict[str, list[str]] = {}
    for user, password in sorted(VENDOR_DEFAULTS):
        rounds.setdefault(user, []).append(password)
    most = max(map(len, rounds.values()))
    return [Credentials(user, list_[n]) for n in range(most) for user, list_ in rounds.items() if n < len(list_)]


async def renew(context: Context, bmc: Bmc, used: Credentials, address: str) -> None:
    """The new one is written down first and the old one is everybody's: whatever happens, one of them opens it."""
    new = replace(used, password=new_password())
    await asyncio.to_thread(remember, context, address, new)
    await bmc.set_password(new.user, new.password)


def remember(context: Context, address: str, credentials: Credentials) -> None:
    """Sealed, until a node with this BMC is enrolled and takes it over."""
    sealed = vault.seal(credentials.password, context.paths.secret_key)
    with context.inventory.change(context.actor, context.cause) as change:
        change.forget_secrets(f"{FOUND}{address}:")
        change.set_secret(f"{FOUND}{address}:{credentials.user}", sealed)


def proposals(found: Iterable[Found], names: Sequence[str]) -> list[dict[str, str]]:
    """Rows to fill in and hand back to 'headnode enroll --from': names in order of address, or made up."""
    new = [item for item in found if item.proposed]
    chosen = [*names, *(f"node{number:03}" for number in range(len(names) + 1, len(new) + 1))]
    return [
        {"name": name, "mac": "", "bmc": item.address, "profile": "", "rack": "", "position": ""}
        for name, item in zip(chosen, new, strict=False)
    ]
