"""Enrol: give machines a name, an address and a profile. All rows or none, and twice changes nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headnode import fields
from headnode.effective import known_profile, value
from headnode.errors import InvalidField, InvalidInput, shown
from headnode.model import BmcAccess, Event, Nic, Node, State
from headnode.nodeset import fold
from headnode.site import Site
from headnode.workflows import addresses
from headnode.workflows.context import Context
from headnode.workflows.sheet import Row, nic_columns
from headnode.workflows.verdicts import Judgement, Verdict

# Sealed passwords that a scan proved, for BMCs that are nobody's node yet: …ADDRESS:USER.
FOUND = "bmc-found:"


@dataclass(frozen=True)
class Item:
    """One row and what becomes of it."""

    name: str
    verdict: Verdict
    node: Node | None = None
    problems: tuple[str, ...] = ()


class Plan(Judgement[Item]):
    @property
    def new(self) -> list[Node]:
        return [item.node for item in self.of(Verdict.NEW) if item.node is not None]


@dataclass
class Taken:
    """Who has what: grows while a plan is made, so that rows of one file cannot collide either."""

    nodes: dict[str, Node] = field(default_factory=dict)
    macs: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    bmcs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "Taken":
        taken = cls()
        for node in nodes:
            taken.add(node)
        return taken

    def add(self, node: Node) -> None:
        self.nodes[node.name] = node
        for nic in node.nics:
            self.macs[nic.mac] = node.name
            if nic.address:
                self.addresses[nic.address] = node.name
        if node.bmc:
            self.bmcs[node.bmc.address] = node.name
            if node.bmc.mac:
                self.macs[node.bmc.mac] = node.name


def plan(site: Site, rows: Sequence[Row], existing: Iterable[Node], sealed_password: str | None = None) -> Plan:
    """What enrolling these rows would do. Pure: it changes nothing and asks nobody."""
    taken = Taken.of(existing)
    pools = {name: addresses.Pool(net, taken.addresses) for name, net in site.networks.items()}
    rows_of: dict[str, str] = {}
    items: list[Item] = []
    wanted = [(row, *judged(site, row)) for row in rows]
    # Addresses asked for by name are kept out of what is handed out to the others.
    for pool in pools.values():
        pool.reserve(nic.address for _, node, _ in wanted if node for nic in node.nics if nic.address)
    for row, node, problems in wanted:
        name = row.values.get("name", "")
        if name and (first := rows_of.get(name)):
            taken_by = f"{row.where}: name is {shown(name)}; {first} has it already, give each node its own"
            problems = [*problems, taken_by]
        rows_of.setdefault(name, row.where)
        items.append(judge_against(site, row, node, problems, taken, pools, sealed_password))
    return Plan(tuple(items))


def judge_against(
    site: Site,
    row: Row,
    node: Node | None,
    problems: list[str],
    taken: Taken,
    pools: Mapping[str, addresses.Pool],
    sealed_password: str | None,
) -> Item:
    """One row beside all the others: new, unchanged, or in somebody's way."""
    if node is None or problems:
        problems = [*problems, *(collisions(row, node, taken) if node else unjudged_collisions(row, taken))]
        return Item(label(row), Verdict.PROBLEM, None, tuple(problems))
    present = taken.nodes.get(node.name)
    if present is not None and present.state is not State.RETIRED:
        different = differences(row, node, present)
        verdict = Verdict.PROBLEM if different else Verdict.UNCHANGED
        return Item(node.name, verdict, present, tuple(different))
    if found := collisions(row, node, taken):
        return Item(node.name, Verdict.PROBLEM, None, tuple(found))
    try:
        node = with_addresses(node, pools, row.where)
    except InvalidInput as error:
        return Item(node.name, Verdict.PROBLEM, None, (error.message,))
    if node.bmc:
        node = replace(node, bmc=replace(node.bmc, sealed_password=sealed_password))
    if present is not None:
        node = replace(node, id=present.id)  # a retired name comes back with its history
    taken.add(node)
    return Item(node.name, Verdict.NEW, node)


def label(row: Row) -> str:
    """The name as it was given, safe to print."""
    return shown(row.values.get("name", "?"))[1:-1]


def with_addresses(node: Node, pools: Mapping[str, addresses.Pool], where: str) -> Node:
    return replace(
        node,
        nics=tuple(
            nic if nic.address else replace(nic, address=pools[nic.network].take(node.name, where)) for nic in node.nics
        ),
    )


def judged(site: Site, row: Row) -> tuple[Node | None, list[str]]:
    """The node a row describes, or everything that is wrong with the row by itself."""
    problems: list[str] = []

    def field_of(column: str, check: Callable[..., Any], *, needed: str = "") -> Any:
        text = row.values.get(column, "")
        try:
            if text:
                fields.plain_text(text, field=column, where=row.where, limit=4000)
                return check(text, where=row.where)
            if needed:
                problems.append(f"{row.where}: {column} is missing; {needed}")
        except InvalidInput as error:
            problems.append(error.message)
        return None

    name = field_of("name", fields.host_name, needed="give each node a name, such as gpu01")
    mac = field_of("mac", fields.mac_address, needed="give the MAC of the port it boots from")
    known = ", ".join(site.profiles)
    profile = field_of("profile", lambda text, where: known_profile(site, text, where=where),
                       needed=f"use one of the site's profiles: {known}")  # fmt: skip
    bmc = field_of("bmc", lambda text, where: addresses.bmc_address(site, text, where))
    address = field_of("address", lambda text, where: addresses.node_address(site, text, where))
    rack = field_of("rack", lambda text, where: fields.plain_label(text, field="rack", where=where))
    position = field_of("position", lambda text, where: rack_position(site, rack, text, where))
    groups = field_of("groups", group_names) or ()
    nics = [Nic(mac, "provision", address)] if mac else []
    for column, network in nic_columns(site).items():
        if other := field_of(column, lambda text, where, c=column: fields.mac_address(text, field=c, where=where)):
            nics.append(Nic(other, network))
    bmc_mac = field_of("bmc_mac", lambda text, where: fields.mac_address(text, field="bmc_mac", where=where))
    if bmc_mac and not row.values.get("bmc"):
        problems.append(f"{row.where}: bmc_mac is '{bmc_mac}' without an address; give the BMC's in 'bmc'")
    if problems:
        return None, problems
    access = BmcAccess(bmc, bmc_mac) if bmc else None
    return Node(name, profile, tuple(nics), access, rack=rack, position=position, groups=groups), []


def rack_position(site: Site, rack: str | None, text: str, where: str) -> int:
    high = site.racks[rack].units if rack in site.racks else 100
    return fields.number(text, field="position", low=1, high=high, where=where)


def group_names(text: str, where: str = "") -> tuple[str, ...]:
    names = text.replace(",", " ").split()
    return tuple(sorted({fields.plain_label(name, field="groups", where=where) for name in names}))


def collisions(row: Row, node: Node, taken: Taken) -> list[str]:
    """Everything this node wants that another has, naming both."""
    found = [
        f"{row.where}: {node.name}'s {what} is '{value}'; {holders[value]} has it already"
        for what, value, holders in claims(node, taken)
        if value in holders and holders[value] != node.name
    ]
    macs = [nic.mac for nic in node.nics]
    found += [
        f"{row.where}: {node.name}'s mac is '{mac}'; it stands there twice" for mac in {*macs} if macs.count(mac) > 1
    ]
    return found


def claims(node: Node, taken: Taken) -> Iterator[tuple[str, str, dict[str, str]]]:
    for nic in node.nics:
        yield ("mac" if nic.network == "provision" else f"{nic.network}_mac"), nic.mac, taken.macs
        if nic.address:
            yield "address", nic.address, taken.addresses
    if node.bmc:
        yield "bmc", node.bmc.address, taken.bmcs
        if node.bmc.mac:
            yield "bmc_mac", node.bmc.mac, taken.macs


def unjudged_collisions(row: Row, taken: Taken) -> list[str]:
    """A row that is wrong in itself is still compared, so that the admin sees everything at once."""
    try:
        mac = fields.mac_address(row.values.get("mac", ""))
    except InvalidField:
        return []
    holder = taken.macs.get(mac)
    if holder is None or holder == row.values.get("name"):
        return []
    return [f"{row.where}: {label(row)}'s mac is '{mac}'; {holder} has it already"]


def differences(row: Row, node: Node, present: Node) -> list[str]:
    """A name that is taken by a different machine; only columns that were given are compared."""
    have = facts(present)
    want = facts(node)
    return [
        f"{row.where}: {node.name} is enrolled already with {column} '{have.get(column) or 'none'}', "
        f"not '{want[column]}'; use 'headnode set {node.name} {column}=…' to change it"
        for column in row.values
        if column != "name" and want.get(column) != have.get(column)
    ]


def facts(node: Node) -> dict[str, object]:
    """A node in the words of the columns."""
    found: dict[str, object] = {
        "mac": node.mac,
        "bmc": node.bmc.address if node.bmc else None,
        "bmc_mac": node.bmc.mac if node.bmc else None,
        "profile": node.profile,
        "rack": node.rack,
        "position": node.position,
        "address": node.address,
        "groups": " ".join(node.groups) or None,
    }
    found.update({f"{nic.network}_mac": nic.mac for nic in node.nics if nic.network != "provision"})
    return found


def enroll(context: Context, rows: Sequence[Row], sealed_password: str | None = None) -> Plan:
    """Plan again under the writers' lock and write it: all or nothing."""
    found = found_bmcs(context)
    with context.inventory.change(context.actor, context.cause) as change:
        made = plan(context.site, rows, change.nodes(), sealed_password)
        if made.problems:
            raise InvalidInput("\n".join(made.problems), hint="nothing was enrolled")
        new = [with_found_access(context.site, node, found) for node in made.new]
        change.add([node for node in new if not node.id])
        change.replace([node for node in new if node.id])
        for node in new:
            if node.bmc is not None and node.bmc.address in found:
                change.forget_secrets(f"{FOUND}{node.bmc.address}:")
        change.record_all(
            Event("enroll", f"enrolled as {node.profile} at {node.address}", change.actor, change.cause, node.name,
                  data={"mac": node.mac, "address": node.address, "bmc": node.bmc.address if node.bmc else None})
            for node in made.new
        )  # fmt: skip
    return made


def found_bmcs(context: Context) -> dict[str, tuple[str, str]]:
    """Address → user and sealed password, of BMCs that a scan has logged in to."""
    found = {}
    for name, sealed in context.inventory.secrets(FOUND).items():
        address, _, user = name.partition(":")
        found[address] = (user, sealed)
    return found


def with_found_access(site: Site, node: Node, found: Mapping[str, tuple[str, str]]) -> Node:
    """A BMC that was found by a scan keeps the user and password that the scan proved. Pure."""
    if node.bmc is None or node.bmc.address not in found:
        return node
    user, sealed = found[node.bmc.address]
    if value(site, node, "bmc_user") != user:
        node = replace(node, settings={**node.settings, "bmc_user": user})
    return replace(node, bmc=replace(node.bmc or BmcAccess(""), sealed_password=sealed))


def summary(made: Plan) -> str:
    parts = []
    if made.new:
        parts.append(f"{len(made.new)} to enrol ({fold(node.name for node in made.new)})")
    if unchanged := made.of(Verdict.UNCHANGED):
        parts.append(f"{len(unchanged)} already enrolled and unchanged")
    if wrong := made.of(Verdict.PROBLEM):
        parts.append(f"{len(wrong)} with problems")
    return ", ".join(parts)
