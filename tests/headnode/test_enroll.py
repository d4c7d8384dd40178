"""Enrolling: what is refused at the door, whichever door it is, and that it is all rows or none."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from headnode import sitefile
from headnode.errors import HeadnodeError, InvalidField, InvalidInput, NotFound, Taken
from headnode.model import State
from headnode.site import Rack, Site
from headnode.workflows import choosing, enroll, nodes, sheet
from headnode.workflows.context import Context
from headnode.workflows.enroll import plan
from headnode.workflows.sheet import COLUMNS, Row
from headnode.workflows.verdicts import Verdict
from tests.headnode.test_fields import NASTY
from tests.support import bmc, csv_of, headnode, mac, problems_are_lines, row, row_of, tree

GOOD = {
    "name": "gpu01", "mac": mac(1), "bmc": bmc(1), "profile": "gpu", "rack": "r1", "position": "3",
    "address": "10.20.9.9", "groups": "a100", "bmc_mac": "52:54:00:cc:00:01",
}  # fmt: skip

BAD = {
    "name": ["GPU01", "-gpu", "gpu_1", "a" * 64, "gpu.1", "head", "42", "é"],
    "mac": ["01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "52:54:00:aa:00", "x", "52:54:00:aa:00:zz"],
    "bmc": ["10.20.0.9", "192.168.0.1", "10.21.255.254", "10.21.0.0", "10.21.255.255", "bmc1", "10.21.0.999", "::1"],
    "profile": ["nosuch", "GPU"],
    "rack": ["r 1", "-r", "r/1"],
    "position": ["0", "101", "-1", "top", "1.5", "1_0"],
    "address": ["10.21.0.9", "10.20.0.1", "10.20.0.0", "10.20.255.255", "10.20.255.254", "x"],
    "groups": ["-a", "a/b"],
    "bmc_mac": ["01:00:5e:00:00:01", "00:00:00:00:00:00", "x"],
}  # fmt: skip

DOORS = ("arguments", "csv", "yaml", "json on standard input")
CASES = [(column, value) for column in COLUMNS for value in [*BAD[column], *NASTY, "\t", "a\rb", "x" * 5000]]


def through(door: str, root: Path, values: dict[str, str], *more: str) -> tuple[int, str]:
    """Enrol one node through a door; everything that was said."""
    if door == "arguments":
        flags = [f"--{column.replace('_', '-')}={value}" for column, value in values.items() if column != "name"]
        done = headnode(root, "enroll", *flags, *more, "--", values["name"])
    elif door == "json on standard input":
        done = headnode(root, "enroll", "--from", "-", *more, stdin=json.dumps([values]).encode())
    else:
        file = root / f"nodes.{door}"
        text = yaml.safe_dump([values], allow_unicode=True) if door == "yaml" else csv_text(values)
        file.write_text(text, encoding="utf-8", newline="")
        done = headnode(root, "enroll", "--from", str(file), *more)
    return done.code, done.out + done.err


def csv_text(values: dict[str, str]) -> str:
    quoted = ['"' + value.replace('"', '""') + '"' for value in values.values()]
    return f"{','.join(values)}\n{','.join(quoted)}\n"


@pytest.mark.parametrize("door", DOORS)
def test_a_good_row_is_taken_through_every_door(root: Path, door: str) -> None:
    code, said = through(door, root, GOOD, "--yes")
    assert code == 0, said
    (found,) = json.loads(headnode(root, "nodes", "-o", "json").out)
    assert {key: str(found[key]) for key in GOOD if key != "groups"} == {k: v for k, v in GOOD.items() if k != "groups"}
    assert found["groups"] == ["a100"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_bad_is_refused_in_every_field_and_through_every_door(root: Path, door: str, column: str) -> None:
    before = tree(root)
    for bad in [value for at, value in CASES if at == column]:
        code, said = through(door, root, {**GOOD, column: bad}, "--yes")
        assert code == 2, (bad, said)
        for line in said.splitlines():
            assert line.isprintable(), (bad, line)
        assert column in said
    after = tree(root)
    assert {path for path in after if before.get(path) != after[path]} <= {"nodes.csv", "nodes.yaml"}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_refusal_names_place_field_and_value(site: Site, column: str) -> None:
    for bad in BAD[column]:
        made = plan(site, [row("nodes.csv, line 7", **{**GOOD, column: bad})], [])
        assert made.problems, bad
        assert all(problem.startswith(f"nodes.csv, line 7: {column} is ") for problem in made.problems)
        problems_are_lines("\n".join(made.problems))


@pytest.mark.parametrize("column", ["name", "mac", "profile"])
def test_what_every_node_needs_is_asked_for(site: Site, column: str) -> None:
    values = {key: value for key, value in GOOD.items() if key != column}
    (problem,) = plan(site, [row(**values)], []).problems
    assert problem.startswith(f"command line: {column} is missing; ")


def test_all_problems_of_all_rows_are_told_at_once(site: Site) -> None:
    rows = [row("line 2", name="A", mac="x", profile="y"), row_of(1), row("line 4", name="b")]
    made = plan(site, rows, [])
    assert [item.verdict for item in made.items] == [Verdict.PROBLEM, Verdict.NEW, Verdict.PROBLEM]
    assert len(made.problems) == 5


def test_addresses_are_given_in_order_and_skip_what_is_taken_or_special(site: Site) -> None:
    rows = [row_of(1), row_of(2, address="10.20.1.2"), row_of(3)]
    made = plan(site, rows, [])
    assert [node.address for node in made.new] == ["10.20.1.1", "10.20.1.2", "10.20.1.3"]


def small(site: Site, node_range: str) -> Site:
    text = f"""
cluster: demo
domain: demo.lan
networks:
  provision: {{cidr: 10.20.0.0/24, interface: e1, head: 10.20.0.1, node_range: {node_range}}}
  management: {{cidr: 10.21.0.0/16, interface: e2, head: 10.21.255.254}}
  storage: {{cidr: 10.22.0.0/16, node_range: 10.22.0.5-10.22.0.9}}
  infiniband: {{cidr: 10.23.0.0/16}}
profiles: {{gpu: {{}}}}
"""
    return sitefile.parse(text.encode(), "site.yaml")


def test_a_full_range_is_refused_saying_what_to_do(site: Site) -> None:
    made = plan(small(site, "10.20.0.10-10.20.0.11"), [row_of(1), row_of(2), row_of(3)], [])
    assert [item.verdict for item in made.items] == [Verdict.NEW, Verdict.NEW, Verdict.PROBLEM]
    assert made.problems == ["command line: no address is left for gpu03 in 10.20.0.10-10.20.0.11"]


def test_network_and_broadcast_addresses_are_never_given(site: Site) -> None:
    made = plan(small(site, "10.20.0.252-10.20.0.255"), [row_of(n) for n in range(1, 5)], [])
    assert [node.address for node in made.new] == ["10.20.0.252", "10.20.0.253", "10.20.0.254"]


def test_ports_on_other_networks_get_addresses_there(site: Site) -> None:
    wide = small(site, "10.20.0.10-10.20.0.20")
    made = plan(wide, [row_of(1, storage_mac=mac(101), infiniband_mac=mac(102))], [])
    (node,) = made.new
    assert [(nic.network, nic.address) for nic in node.nics] == [
        ("provision", "10.20.0.10"),
        ("storage", "10.22.0.5"),
        ("infiniband", None),
    ]
    (problem,) = plan(wide, [row_of(1, storage_mac=mac(1))], []).problems
    assert "it stands there twice" in problem


@pytest.mark.parametrize(
    ("column", "value", "owner"),
    [("mac", mac(1), "gpu01"), ("bmc", bmc(1), "gpu01"), ("address", "10.20.1.1", "gpu01")],
)
@pytest.mark.parametrize("existing", [True, False], ids=["in the inventory", "in the same file"])
def test_what_another_node_has_is_refused_naming_both(
    site: Site, column: str, value: str, owner: str, existing: bool
) -> None:
    first = row_of(1, address="10.20.1.1")
    second = Row("line 3", {**row_of(2).values, column: value})
    enrolled = plan(site, [first], []).new if existing else []
    made = plan(site, [second] if existing else [first, second], enrolled)
    assert made.problems == [f"line 3: gpu02's {column} is '{value}'; {owner} has it already"]


def test_a_mac_in_another_spelling_is_still_taken(site: Site) -> None:
    enrolled = plan(site, [row_of(1)], []).new
    made = plan(site, [row(name="evil", mac=mac(1).replace(":", "-").upper())], enrolled)
    assert any("evil's mac is" in problem and "gpu01 has it already" in problem for problem in made.problems)


def test_a_name_twice_in_a_file_is_refused_even_when_the_rows_agree(site: Site) -> None:
    made = plan(site, [row("line 2", **GOOD), row("line 3", **GOOD)], [])
    assert "line 3: name is 'gpu01'; line 2 has it already, give each node its own" in made.problems


def test_rows_without_names_do_not_collide_with_each_other(site: Site) -> None:
    made = plan(site, [row("line 2", mac=mac(1)), row("line 3", mac=mac(2))], [])
    assert not [problem for problem in made.problems if "already" in problem]


def test_enrolling_again_changes_nothing(context: Context) -> None:
    rows = [row_of(1, rack="r1", position="3", groups="b a"), row_of(2)]
    enroll.enroll(context, rows)
    before = context.inventory.nodes(), context.inventory.events()
    again = enroll.enroll(context, [row_of(1, rack="r1", position="3", groups="a,b"), row_of(2)])
    assert [item.verdict for item in again.items] == [Verdict.UNCHANGED] * 2
    assert (context.inventory.nodes(), context.inventory.events()) == before


def test_enrolling_a_known_name_as_another_machine_is_refused_field_by_field(context: Context) -> None:
    enroll.enroll(context, [row_of(1, rack="r1")])
    with pytest.raises(InvalidInput) as caught:
        enroll.enroll(context, [Row("line 2", {**row_of(1).values, "mac": mac(9), "rack": "r2", "position": "5"})])
    assert caught.value.message.splitlines() == [
        f"line 2: gpu01 is enrolled already with {field} '{now}', not '{then}'; "
        f"use 'headnode set gpu01 {field}=…' to change it"
        for field, now, then in (("mac", mac(1), mac(9)), ("rack", "r1", "r2"), ("position", "none", "5"))
    ]


def test_it_is_all_rows_or_none(context: Context) -> None:
    with pytest.raises(InvalidInput):
        enroll.enroll(context, [row_of(1), row_of(2), row(name="bad")])
    assert context.inventory.nodes() == []
    assert context.inventory.events() == []


def test_every_new_node_has_an_event_with_actor_and_cause(context: Context) -> None:
    enroll.enroll(context, [row_of(1), row_of(2)])
    events = context.inventory.events()
    assert [(event.node, event.kind, event.actor, event.cause) for event in events] == [
        ("gpu01", "enroll", "tester", "a test"),
        ("gpu02", "enroll", "tester", "a test"),
    ]


def test_a_retired_name_comes_back_with_its_history_and_nothing_else(context: Context) -> None:
    enroll.enroll(context, [row_of(1, groups="a100", rack="r1")])
    nodes.set_fields(context, ["gpu01"], {"console": "ttyS1"})
    number = context.inventory.nodes()[0].id
    nodes.retire(context, ["gpu01"])
    assert context.inventory.nodes() == []
    enroll.enroll(context, [row(name="gpu01", mac=mac(7), profile="cpu")])
    (node,) = context.inventory.nodes()
    assert (node.id, node.state, node.mac, node.bmc) == (number, State.ENROLLED, mac(7), None)
    assert (node.groups, node.rack, dict(node.settings)) == ((), None, {})
    assert [event.kind for event in context.inventory.events("gpu01")] == ["enroll", "set", "retire", "enroll"]


def test_what_a_retired_node_had_is_free_again(context: Context) -> None:
    enroll.enroll(context, [row_of(1)])
    nodes.retire(context, ["gpu01"])
    made = enroll.enroll(context, [row(name="other", mac=mac(1), bmc=bmc(1), profile="gpu")])
    assert [node.address for node in made.new] == ["10.20.1.1"]


def test_without_a_management_network_there_are_no_bmcs(site: Site) -> None:
    alone = site.model_copy(update={"networks": {"provision": site.provision}})
    (problem,) = plan(alone, [row_of(1)], []).problems
    assert "the site has no management network" in problem


def test_a_position_is_inside_its_rack(site: Site) -> None:
    small_rack = site.model_copy(update={"racks": {"r1": Rack(units=10)}})
    assert plan(small_rack, [row_of(1, rack="r1", position="10")], []).problems == []
    assert "from 1 to 10" in plan(small_rack, [row_of(1, rack="r1", position="11")], []).problems[0]


# Sheets: many nodes in a row, and files that are not what they should be.


def rows_of(site: Site, text: str, name: str = "nodes.csv") -> list[dict[str, str]]:
    return [dict(found.values) for found in sheet.read(text, name, site)]


def test_a_row_may_stand_for_many_nodes(site: Site) -> None:
    text = f"name,mac,bmc,profile,position\ngpu[02-03],{mac(2)} {mac(3)},10.21.0.[12-13],gpu,7 8\n"
    assert rows_of(site, text) == [
        {"name": "gpu02", "mac": mac(2), "bmc": "10.21.0.12", "profile": "gpu", "position": "7"},
        {"name": "gpu03", "mac": mac(3), "bmc": "10.21.0.13", "profile": "gpu", "position": "8"},
    ]


def test_values_go_to_the_names_in_the_order_they_are_written(site: Site) -> None:
    text = f'name,mac,bmc\n"gpu02,gpu01",{mac(2)} {mac(1)},"10.21.0.[12,11]"\n'
    found = {row["name"]: (row["mac"], row["bmc"]) for row in rows_of(site, text)}
    assert found == {"gpu02": (mac(2), "10.21.0.12"), "gpu01": (mac(1), "10.21.0.11")}


def test_yaml_values_are_what_is_written_and_not_what_yaml_makes_of_them(site: Site) -> None:
    text = "- {name: on, mac: 52:54:00:10:00:01, position: 010, rack: 012}\n- name: gpu02\n  groups: [a, b]\n"
    assert rows_of(site, text, "nodes.yaml") == [
        {"name": "on", "mac": "52:54:00:10:00:01", "position": "010", "rack": "012"},
        {"name": "gpu02", "groups": "a b"},
    ]


@pytest.mark.parametrize(
    "text", ["nodes:\n- name: gpu01\n", "- name: gpu01\n", "---\n- name: gpu01\n", "[{name: gpu01}]", "name\ngpu01\n",
             "\ufeffname\r\ngpu01\r\n", "NAME , MAC\n gpu01 ,\n\n", "# a comment\n- name: gpu01\n"],
)  # fmt: skip
def test_the_kind_of_file_is_seen_by_how_it_begins(site: Site, text: str) -> None:
    assert rows_of(site, text, "-") == [{"name": "gpu01"}]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("nodes.csv", "", "nodes.csv is empty; it needs a header such as name,mac"),
        ("nodes.csv", "name,mac\n", "has no nodes in it"),
        ("nodes.csv", "mac\nx\n", "nodes.csv, line 1: the column 'name' is missing"),
        ("nodes.csv", "name,colour\na,b\n", "nodes.csv, line 1: 'colour' is not a known column; use name, mac"),
        ("nodes.csv", "name,name\na,b\n", "the column 'name' is there twice"),
        ("nodes.csv", "name\na,b\n", "nodes.csv, line 2: 2 values for 1 columns; remove what is too many"),
        ("nodes.csv", 'name\n"a\n', "this is not CSV"),
        ("nodes.csv", "name\na\x00b\n", "nodes.csv, line 2: "),
        ("nodes.csv", "name,bmc_password\na,b\n", "'bmc_password' is not a known column"),
        ("nodes.csv", "name,mac\ngpu[1-3],x y\n", "nodes.csv, line 2: mac is 'x y'; use as many as there are names: 3"),
        ("nodes.csv", "name\ngpu[1-\n", "nodes.csv, line 2: name is 'gpu[1-'; use a form such as"),
        ("nodes.csv", "name\ngpu*\n", "nodes.csv, line 2: name is 'gpu*'; that names no node"),
        ("nodes.csv", "name\n@a100\n", "no node is in a group 'a100'"),
        ("nodes.csv", "name\ngpu[1-999999]\n", "more than 100000"),
        ("nodes.yaml", "", "must be a list of nodes"),
        ("nodes.yaml", "a: b", "must be a list of nodes"),
        ("nodes.yaml", "- gpu01", "nodes.yaml, line 1: 'gpu01' is not a node"),
        ("nodes.yaml", "- name: a\n- colour: b", "nodes.yaml, line 2: 'colour' is not a known column"),
        ("nodes.yaml", "- name: a\n  name: b", "given twice"),
        ("nodes.yaml", "[", "not YAML"),
        ("nodes.yaml", "[]", "has no nodes in it"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(site: Site, name: str, text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        refuse_problems(plan(site, sheet.read(text, name, site), []))
    problems_are_lines(caught.value.message)
    assert words in caught.value.message


def refuse_problems(made: enroll.Plan) -> None:
    if made.problems:
        raise InvalidInput("\n".join(made.problems))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_file_is_read_as_spreadsheets_write_it(site: Site, separator: str) -> None:
    lines = ["# from the rack plan", "Name,MAC,Profile,Groups", '"gpu01",52-54-00-AA-00-01,gpu,"a100 fast"', ",,,"]
    text = "\ufeff" + "\r\n".join(lines).replace(",", separator) + "\r\n"
    (found,) = sheet.read(text, "nodes.csv", site)
    assert found.values == {"name": "gpu01", "mac": "52-54-00-AA-00-01", "profile": "gpu", "groups": "a100 fast"}
    assert plan(site, [found], []).new[0].mac == "52:54:00:aa:00:01"


def test_a_file_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not UTF-8 text"):
        sheet.decode(b"name\n\xe9\n", "nodes.csv")


def test_line_breaks_between_values_are_refused(site: Site) -> None:
    with pytest.raises(InvalidInput, match="control characters"):
        sheet.read(f'name,mac\ngpu[1-2],"{mac(1)}\n{mac(2)}"\n', "nodes.csv", site)


def test_a_password_column_is_answered_with_where_a_password_belongs(site: Site) -> None:
    with pytest.raises(InvalidInput) as caught:
        sheet.read("name,password\na,hunter2\n", "nodes.csv", site)
    assert "--bmc-password-file" in caught.value.hint
    assert "hunter2" not in caught.value.message


def test_a_thousand_nodes_are_one_transaction(context: Context) -> None:
    rows = sheet.read(csv_of(range(1, 1001)), "nodes.csv", context.site)
    made = enroll.enroll(context, rows)
    assert len(made.new) == context.inventory.count() == 1000
    assert len({node.revision for node in context.inventory.nodes()}) == 1
    assert enroll.summary(made) == "1000 to enrol (gpu[0001-1000])"


# Setting fields and retiring.


@pytest.fixture
def two(context: Context) -> Context:
    enroll.enroll(context, [row_of(1), row_of(2)])
    return context


def test_set_says_what_changes_and_records_it(two: Context) -> None:
    wanted = nodes.parse_assignments(two.site, ["rack=r1", "kernel_args=pci=realloc quiet", "groups=b a"])
    planned = nodes.set_fields(two, ["gpu01", "gpu02"], wanted, rehearsal=True)
    assert [(edit.node, edit.field, edit.before, edit.after) for edit in planned[:3]] == [
        ("gpu01", "rack", None, "r1"),
        ("gpu01", "groups", [], ["a", "b"]),
        ("gpu01", "kernel_args", None, ["pci=realloc", "quiet"]),
    ]
    assert two.inventory.nodes()[0].rack is None
    assert nodes.set_fields(two, ["gpu01", "gpu02"], wanted) == planned
    assert nodes.set_fields(two, ["gpu01", "gpu02"], wanted) == []
    assert len([event for event in two.inventory.events() if event.kind == "set"]) == 6


def test_an_empty_value_takes_the_nodes_own_away(two: Context) -> None:
    nodes.set_fields(two, ["gpu01"], {"console": "ttyS9", "rack": "r1", "position": "4", "bmc": bmc(9)})
    nodes.set_fields(two, ["gpu01"], dict.fromkeys(["console", "rack", "position", "bmc", "groups"], ""))
    node = two.inventory.nodes(["gpu01"])[0]
    assert (dict(node.settings), node.rack, node.position, node.bmc) == ({}, None, None, None)


@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        ("mac", "'mac' is not key=value"),
        ("colour=red", "there is no field 'colour'"),
        ("mac=", "a node cannot be without it"),
        ("mac=ff:ff:ff:ff:ff:ff", "multicast"),
        (f"mac={mac(2)}", f"gpu01's mac cannot be '{mac(2)}'; gpu02 has it already"),
        ("address=10.20.1.2", "gpu02 has it already"),
        (f"bmc={bmc(2)}", "gpu02 has it already"),
        ("address=10.99.0.1", "use an address of the provision network"),
        ("profile=none", "use one of the site's profiles"),
        ("locked=maybe", "use true or false"),
        ("position=200", "whole number from 1 to 100"),
        ("layout=nosuch", "there is no such layout"),
        ("nvidia_branch=newest", "none, auto, a branch such as 580"),
        ("start_watts=x", "use a whole number"),
        ("rack=a\nb", "control characters"),
        ("console=${x}", "'${' is not allowed"),
        ("groups=a/b", "use up to 64 letters"),
    ],
)
def test_set_refuses_what_enroll_would(two: Context, assignment: str, error: str) -> None:
    before = two.inventory.nodes()
    with pytest.raises(HeadnodeError) as caught:
        nodes.set_fields(two, ["gpu01"], nodes.parse_assignments(two.site, [assignment]))
    problems_are_lines(caught.value.message)
    assert error in caught.value.message
    assert two.inventory.nodes() == before


def test_set_refuses_the_same_field_twice_and_one_machine_for_many(two: Context) -> None:
    with pytest.raises(InvalidInput, match="rack is given twice"):
        nodes.parse_assignments(two.site, ["rack=a", "rack=b"])
    with pytest.raises(InvalidInput, match="mac belongs to one node, and 2 were named"):
        nodes.set_fields(two, ["gpu01", "gpu02"], {"mac": mac(9)})


def test_a_position_is_judged_in_the_rack_the_node_goes_to(two: Context) -> None:
    text = two.paths.site_file.read_text().replace("racks: {}", "racks: {big: {units: 60}, low: {units: 5}}")
    two.paths.site_file.write_text(text)
    fresh = Context(two.paths, "tester", "a test")
    nodes.set_fields(fresh, ["gpu01"], {"position": "55", "rack": "big"})
    with pytest.raises(InvalidInput, match="from 1 to 5"):
        nodes.set_fields(fresh, ["gpu01"], {"position": "6", "rack": "low"})
    fresh.inventory.close()


def test_a_node_retired_meanwhile_is_not_brought_back_by_set(two: Context) -> None:
    nodes.retire(two, ["gpu01"])
    with pytest.raises(NotFound, match="gpu01 was retired"):
        nodes.set_fields(two, ["gpu01"], {"mac": mac(2)})


def test_a_locked_node_is_not_retired_and_neither_are_the_others(two: Context) -> None:
    nodes.set_fields(two, ["gpu02"], {"locked": "true"})
    with pytest.raises(InvalidInput, match="gpu02"):
        nodes.retire(two, ["gpu01", "gpu02"])
    assert len(two.inventory.nodes()) == 2


def test_choosing_nodes_refuses_what_is_not_there(two: Context) -> None:
    nodes.set_fields(two, ["gpu02"], {"groups": "a100"})
    assert [node.name for node in choosing.select(two, "gpu[01-02]")] == ["gpu01", "gpu02"]
    assert [node.name for node in choosing.select(two, "@a100")] == ["gpu02"]
    assert [node.name for node in choosing.select(two, "@all!@a100")] == ["gpu01"]
    assert [node.name for node in choosing.select(two, "gpu*")] == ["gpu01", "gpu02"]
    for missing in ("gpu[01-03]", "@nosuch", "cpu*", "gpu01&gpu02", "", "gpu[3-4],x"):
        with pytest.raises(InvalidInput):
            choosing.select(two, missing)


def test_two_nodes_cannot_be_given_the_same_thing_at_once(two: Context) -> None:
    one, other = two.inventory.nodes()
    twin = replace(other, nics=one.nics)
    with pytest.raises(Taken, match="gpu02's mac cannot be"):
        nodes.refuse_taken([one, twin], [one, other])


def with_storage(context: Context) -> Context:
    """The same site with one more network."""
    file = context.paths.site_file
    storage = "  storage: {cidr: 10.22.0.0/16, node_range: 10.22.1.1-10.22.1.9}\n"
    file.write_text(file.read_text().replace("\nbmc:\n", f"{storage}\nbmc:\n"))
    return Context(context.paths, "tester", "a test")


def test_everything_that_a_refusal_tells_to_set_can_be_set(two: Context) -> None:
    context = with_storage(two)
    rows = [row_of(1, storage_mac=mac(101), bmc_mac=mac(201), rack="r1", position="3", groups="a100")]
    told = [problem.split("headnode set gpu01 ")[1].split("=")[0] for problem in
            plan(context.site, rows, context.inventory.nodes()).problems]  # fmt: skip
    assert {*told} == {"storage_mac", "bmc_mac", "rack", "position", "groups"}
    nodes.set_fields(context, ["gpu01"], {key: rows[0].values[key] for key in told})
    assert plan(context.site, rows, context.inventory.nodes()).problems == []
    context.close()


def test_a_new_port_gets_an_address_keeps_it_and_gives_it_back(two: Context) -> None:
    context = with_storage(two)
    for name, number in (("gpu01", 101), ("gpu02", 102), ("gpu01", 103)):
        nodes.set_fields(context, [name], {"storage_mac": mac(number)})
    ports = {node.name: node.nics[1] for node in context.inventory.nodes()}
    assert {name: (nic.mac, nic.address) for name, nic in ports.items()} == {
        "gpu01": (mac(103), "10.22.1.1"),
        "gpu02": (mac(102), "10.22.1.2"),
    }
    with pytest.raises(Taken, match="gpu02 has it already"):
        nodes.set_fields(context, ["gpu01"], {"storage_mac": mac(102)})
    shown = nodes.description(context.site, context.inventory.nodes()[0])["effective"]
    assert shown["storage_mac"] == {"value": mac(103), "source": "node"}
    assert shown["storage_address"]["source"] == "site networks.storage.node_range, kept with the node"
    assert shown["rack"]["source"] == "not set"
    nodes.set_fields(context, ["gpu01"], {"storage_mac": ""})
    assert len(context.inventory.nodes()[0].nics) == 1
    context.close()


def test_a_bmc_mac_needs_a_bmc(two: Context) -> None:
    with pytest.raises(InvalidField, match="set its address too"):
        nodes.set_fields(two, ["gpu01"], {"bmc": "", "bmc_mac": mac(201)})


def test_the_history_says_values_as_people_write_them(two: Context) -> None:
    nodes.set_fields(two, ["gpu01"], {"kernel_args": "quiet pci=realloc", "locked": "true"})
    nodes.set_fields(two, ["gpu01"], {"kernel_args": ""})
    said = [event.message for event in two.inventory.events("gpu01") if event.kind == "set"]
    assert said == [
        "locked: false → true", "kernel_args: none → quiet pci=realloc", "kernel_args: quiet pci=realloc → none",
    ]  # fmt: skip
