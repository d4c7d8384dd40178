"""Whatever comes in is done or refused in our words: one line for each problem, never a traceback.

HEADNODE_TEST_EXAMPLES=50 tries fifty times as many.
"""

import copy
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headnode import fields, nodeset, sitefile
from headnode.cli.common import FORMATS
from headnode.effective import SETTINGS
from headnode.errors import HeadnodeError
from headnode.site import Site
from headnode.workflows import enroll, nodes, sheet
from headnode.workflows.sheet import COLUMNS
from headnode.workflows.verdicts import Verdict
from tests.headnode.test_fields import NASTY
from tests.headnode.test_site import VALID
from tests.support import Result, headnode, mac, node_of, problems_are_lines

SITE = sitefile.parse(VALID.encode(), "site.yaml")


def examples(number: int) -> Callable[[Any], Any]:
    # In CI always the same ones: what fails there must fail for whoever looks into it.
    return settings(
        max_examples=number * int(os.environ.get("HEADNODE_TEST_EXAMPLES", "1")),
        deadline=None,
        derandomize="CI" in os.environ,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


# Text that is nearly right finds more than text that is all wrong.
WORDS = st.sampled_from(
    [
        "gpu01", "gpu[1-3]", "gpu", "gpu02,gpu01", mac(1), "10.21.0.11", "10.20.1.1", "a100", "@a100", "@all", "1", "",
        "on", "null", "~", "<<", "*a", "&a", "!!int", "0x1", "1e999", "2001-99-99", "=", "gpu*", "[", "]", "{", "}",
        "%s", "..", *NASTY,
    ]
)  # fmt: skip
TEXT = st.one_of(WORDS, st.text(max_size=40), st.lists(WORDS, max_size=4).map("".join))


def refused_in_our_words(work: Callable[[], object]) -> None:
    try:
        work()
    except HeadnodeError as error:
        problems_are_lines(error.message)


@pytest.mark.parametrize(
    "check", [fields.host_name, fields.domain_name, fields.mac_address, fields.ip_address, fields.plain_label,
              fields.interface_name, lambda text: fields.plain_text(text, field="x"),
              lambda text: fields.number(text, field="x", low=1, high=9)],
)  # fmt: skip
@examples(60)
@given(text=TEXT)
def test_fields(check: Callable[[str], object], text: str) -> None:
    refused_in_our_words(lambda: check(text))


@examples(100)
@given(text=st.text("0123456789abcdefABCDEF:-. g", max_size=20))
def test_a_mac_is_refused_or_has_one_spelling(text: str) -> None:
    def check() -> None:
        found = fields.mac_address(text)
        assert fields.mac_address(found) == found
        assert len(found) == 17

    refused_in_our_words(check)


@examples(250)
@given(text=st.one_of(TEXT, st.text("gpu019[]-,!&^@/*%? ", max_size=20)))
def test_node_sets(text: str) -> None:
    groups = {"all": ["gpu01"], "a100": ["gpu01", "gpu02"]}

    def check() -> None:
        names = nodeset.expand(text, groups=groups)
        nodeset.expand_in_order(text)
        assert sorted(names, key=nodeset.natural_key) is not names
        nodeset.fold(names)

    refused_in_our_words(check)


@examples(100)
@given(numbers=st.sets(st.integers(0, 999), max_size=20))
def test_folding_and_expanding_are_opposites(numbers: set[int]) -> None:
    names = {f"gpu{number:03}" for number in numbers}
    assert {*nodeset.expand(nodeset.fold(names))} == names


def enrolled(text: str, name: str, site: Site = SITE) -> None:
    made = enroll.plan(site, sheet.read(text, name, site), [node_of(1)])
    for problem in made.problems:
        problems_are_lines(problem)
    assert bool(made.problems) == bool(made.of(Verdict.PROBLEM))
    enroll.summary(made)


HEADER = st.lists(st.one_of(st.sampled_from(COLUMNS), TEXT), min_size=1, max_size=6)


@examples(150)
@given(header=HEADER, rows=st.lists(st.lists(TEXT, max_size=7), max_size=4))
def test_csv_of_cells(header: list[str], rows: list[list[str]]) -> None:
    text = "\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in cells) for cells in [header, *rows])
    refused_in_our_words(lambda: enrolled(text, "nodes.csv"))


@examples(150)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"name": TEXT, "mac": TEXT, "profile": st.sampled_from(["gpu", "cpu", "x"])},
            optional={"bmc": TEXT, "rack": TEXT, "position": TEXT, "address": TEXT, "groups": TEXT},
        ),
        max_size=4,
    )
)
def test_yaml_of_rows(rows: list[dict[str, str]]) -> None:
    refused_in_our_words(lambda: enrolled(yaml.safe_dump(rows, allow_unicode=True), "nodes.yaml"))


@examples(150)
@given(text=st.one_of(st.text(max_size=80), st.lists(st.one_of(WORDS, st.sampled_from("\n :,-\t'\"#|>"))).map("".join)))
def test_sheets_of_any_text(text: str) -> None:
    for name in ("nodes.csv", "nodes.yaml", "-"):
        refused_in_our_words(lambda name=name: enrolled(text, name))  # type: ignore[misc]


@examples(100)
@given(content=st.binary(max_size=80))
def test_sheets_of_any_bytes(content: bytes) -> None:
    refused_in_our_words(lambda: enrolled(sheet.decode(content, "-"), "-"))


# Site files.


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.dates(), st.binary(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)


def places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a tree of dicts and lists."""
    found = [at] if at else []
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        found += places(value, (*at, key))
    return found


PLACES = places(yaml.safe_load(VALID))


@examples(250)
@given(place=st.sampled_from(PLACES), value=VALUES, action=st.sampled_from(["change", "remove", "add"]), key=TEXT)
def test_a_site_with_one_thing_changed(place: tuple[Any, ...], value: Any, action: str, key: str) -> None:
    data = copy.deepcopy(yaml.safe_load(VALID))
    holder = data
    for part in place[:-1]:
        holder = holder[part]
    if action == "remove":
        del holder[place[-1]]
    elif action == "add" and isinstance(holder, dict):
        holder[key] = value
    else:
        holder[place[-1]] = value
    refused_in_our_words(lambda: sitefile.parse(yaml.safe_dump(data, allow_unicode=True).encode(), "site.yaml"))


@examples(150)
@given(start=st.integers(0, len(VALID)), length=st.integers(0, 20), text=TEXT)
def test_a_site_with_a_piece_of_its_text_replaced(start: int, length: int, text: str) -> None:
    changed = VALID[:start] + text + VALID[start + length :]
    refused_in_our_words(lambda: sitefile.parse(changed.encode(errors="surrogatepass"), "site.yaml"))


@examples(100)
@given(content=st.one_of(st.binary(max_size=100), st.text(max_size=100).map(str.encode)))
def test_a_site_of_any_bytes(content: bytes) -> None:
    refused_in_our_words(lambda: sitefile.parse(content, "site.yaml"))


# Assignments, and the command line.


ASSIGNMENT = st.one_of(
    TEXT, st.builds(lambda key, value: f"{key}={value}", st.sampled_from((*nodes.FIELDS, *SETTINGS)), TEXT)
)


@examples(250)
@given(assignments=st.lists(ASSIGNMENT, max_size=3))
def test_assignments(assignments: list[str]) -> None:
    def check() -> None:
        before = node_of(1)
        after = nodes.changed(SITE, before, nodes.parse_assignments(SITE, assignments))
        nodes.edits([before], [after])
        nodes.description(SITE, after)

    refused_in_our_words(check)


@pytest.fixture(scope="module")
def used_root(_made_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(_made_root, tmp_path_factory.mktemp("used") / "root"))


# What cannot be an argument of a process at all is left out.
ARGUMENT = TEXT.filter(lambda text: "\0" not in text)
OPTIONS = st.lists(
    st.builds(
        lambda name, value: f"--{name}={value}",
        st.sampled_from(["mac", "bmc", "profile", "rack", "position", "address", "groups"]),
        ARGUMENT,
    ),
    max_size=4,
)


def told_in_our_words(done: Result) -> None:
    assert done.code in (0, 1, 2)
    for line in done.err.splitlines():
        assert line.isprintable(), line
    assert "Traceback" not in done.err


@examples(60)
@given(name=ARGUMENT, options=OPTIONS, more=st.sampled_from([["--yes"], ["--dry-run"], ["--dry-run", "-o", "json"]]))
def test_enroll_on_the_command_line(used_root: Path, name: str, options: list[str], more: list[str]) -> None:
    told_in_our_words(headnode(used_root, "enroll", f"--mac={mac(1)}", "--profile=gpu", *options, *more, "--", name))


@examples(40)
@given(
    content=st.one_of(st.binary(max_size=60), TEXT.map(lambda text: f"name,mac,profile\n{text},{text},gpu".encode()))
)
def test_enroll_from_standard_input(used_root: Path, content: bytes) -> None:
    told_in_our_words(headnode(used_root, "enroll", "--from", "-", "--yes", stdin=content))


@examples(60)
@given(
    command=st.sampled_from(["nodes", "show", "events", "render", "retire"]),
    argument=ARGUMENT,
    output=st.sampled_from(FORMATS),
)
def test_other_commands(used_root: Path, command: str, argument: str, output: str) -> None:
    options = {"render": [], "retire": ["--yes"]}.get(command, ["-o", output])
    told_in_our_words(headnode(used_root, command, *options, "--", argument))


@examples(50)
@given(
    nodeset=st.one_of(st.just("gpu01"), ARGUMENT),
    assignments=st.lists(ASSIGNMENT.filter(lambda text: "\0" not in text)),
)
def test_set_on_the_command_line(used_root: Path, nodeset: str, assignments: list[str]) -> None:
    headnode(used_root, "enroll", "gpu01", "--mac", mac(1), "--profile", "gpu", "--yes", "--no-publish")
    told_in_our_words(headnode(used_root, "set", "--yes", "--", nodeset, *assignments))


@examples(40)
@given(cluster=ARGUMENT, domain=ARGUMENT, interface=ARGUMENT, network=ARGUMENT)
def test_init_on_the_command_line(
    tmp_path_factory: pytest.TempPathFactory, cluster: str, domain: str, interface: str, network: str
) -> None:
    flags = [f"--cluster={cluster}", f"--domain={domain}", f"--provision-interface={interface}"]
    root = tmp_path_factory.mktemp("init")
    told_in_our_words(headnode(root, "init", "--yes", *flags))
    told_in_our_words(headnode(root, "init", "--yes", *flags, f"--provision={network}", f"--dns={network}"))
