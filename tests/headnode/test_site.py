"""Every problem of a site file is one sentence: file, line, field, value and what would be right."""

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from headnode import sitefile
from headnode.errors import HeadnodeError, InvalidSite
from headnode.site import Site
from headnode.sitevalues import AddressRange
from tests.support import headnode, problems_are_lines

VALID = """\
cluster: demo
domain: demo.lan
networks:
  provision:
    cidr: 10.20.0.0/16
    interface: eth1
    head: 10.20.0.1
    node_range: 10.20.1.0-10.20.1.255
    discovery_range: 10.20.2.0-10.20.2.255
  management:
    cidr: 10.21.0.0/16
    interface: eth2
    head: 10.21.0.1
profiles:
  cpu:
    layout: one
  gpu:
    parent: cpu
layouts:
  one:
    disks: {system: {}}
    volumes:
      - {name: root, on: system, size: rest, mount: /}
"""


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(InvalidSite) as caught:
        sitefile.parse(text.encode() if isinstance(text, str) else text, "site.yaml")
    problems_are_lines(caught.value.message)
    return caught.value.problems


def changed(before: str, after: str) -> str:
    assert VALID.count(before) == 1, before
    return VALID.replace(before, after)


def test_a_valid_file_is_read() -> None:
    site = sitefile.parse(VALID.encode(), "site.yaml")
    assert site.cluster == "demo"
    assert str(site.provision.node_range) == "10.20.1.0-10.20.1.255"
    assert site.management is not None


# What is written instead of what → line, field, value (or nothing), and what must be said about it.
PROBLEMS = {
    "unknown key": (
        "  provision:\n", "  provision:\n    cider: 1\n",
        5, "networks.provision.cider", None, ["not a known key", "did you mean 'cidr'?"]),
    "unknown key at the top": ("cluster: demo", "cluster: demo\nprofles: {}", 2, "profles", None, ["'profiles'"]),
    "overlapping networks": (
        "10.21.0.0/16", "10.20.128.0/17",
        11, "networks.management.cidr", "10.20.128.0/17", ["overlaps network 'provision' (10.20.0.0/16)"]),
    "range outside its network": (
        "10.20.1.0-10.20.1.255", "10.20.1.0-10.22.1.255",
        8, "networks.provision.node_range", "10.20.1.0-10.22.1.255", ["outside 10.20.0.0/16"]),
    "range backwards": (
        "10.20.1.0-10.20.1.255", "10.20.1.9-10.20.1.1",
        8, "networks.provision.node_range", "10.20.1.9-10.20.1.1", ["use 10.20.1.1-10.20.1.9"]),
    "range that is none": (
        "10.20.1.0-10.20.1.255", "all", 8, "networks.provision.node_range", "all", ["two addresses with a hyphen"]),
    "ranges that overlap": (
        "10.20.2.0-10.20.2.255", "10.20.1.200-10.20.2.9",
        9, "networks.provision.discovery_range", "10.20.1.200-10.20.2.9", ["overlaps node_range"]),
    "head inside the node range": (
        "head: 10.20.0.1", "head: 10.20.1.7",
        7, "networks.provision.head", "10.20.1.7", ["inside node_range 10.20.1.0-10.20.1.255"]),
    "head outside its network": (
        "head: 10.20.0.1", "head: 10.99.0.1", 7, "networks.provision.head", "10.99.0.1", ["outside 10.20.0.0/16"]),
    "head is the broadcast address": (
        "head: 10.20.0.1", "head: 10.20.255.255", 7, "networks.provision.head", "10.20.255.255", ["broadcast"]),
    "gateway inside the discovery range": (
        "head: 10.20.0.1", "head: 10.20.0.1\n    gateway: 10.20.2.1",
        8, "networks.provision.gateway", "10.20.2.1", ["inside discovery_range"]),
    "head that is no address": (
        "head: 10.20.0.1", "head: 10.20.0.256", 7, "networks.provision.head", "10.20.0.256", ["use an IPv4 address"]),
    "address for a network": (
        "10.20.0.0/16", "10.20.0.1/16", 5, "networks.provision.cidr", "10.20.0.1/16", ["use 10.20.0.0/16"]),
    "no network at all": ("10.20.0.0/16", "lan", 5, "networks.provision.cidr", "lan", ["CIDR form"]),
    "profile cycle": (
        "layout: one\n", "parent: gpu\n",
        16, "profiles.cpu.parent", "gpu", ["in a circle (cpu → gpu → cpu)", "remove one parent"]),
    "profile that is its own parent": (
        "parent: cpu", "parent: gpu", 18, "profiles.gpu.parent", "gpu", ["in a circle (gpu → gpu)"]),
    "unknown parent": ("parent: cpu", "parent: cpy", 18, "profiles.gpu.parent", "cpy", ["use one of cpu, gpu"]),
    "bad domain": ("demo.lan", "Demo_LAN", 2, "domain", "Demo_LAN", ["use a DNS domain in lower case"]),
    "domain of one label": ("demo.lan", "lan", 2, "domain", "lan", ["such as cluster.example.org"]),
    "bad cluster name": ("cluster: demo", "cluster: De mo", 1, "cluster", "De mo", ["such as gpu01"]),
    "interface too long": (
        "interface: eth1", "interface: averylonginterface",
        6, "networks.provision.interface", "averylonginterface", ["at most 15"]),
    "two networks on one interface": (
        "interface: eth2", "interface: eth1",
        12, "networks.management.interface", "eth1", ["network 'provision' is on that interface too"]),
    "vlan out of bounds": (
        "interface: eth2", "interface: eth2\n    vlan: 4095",
        13, "networks.management.vlan", "4095", ["whole number of at most 4094"]),
    "mtu too small": (
        "interface: eth2", "interface: eth2\n    mtu: 10", 13, "networks.management.mtu", "10", ["at least 576"]),
    "mtu that is no number": (
        "interface: eth2", "interface: eth2\n    mtu: big", 13, "networks.management.mtu", "big", ["a whole number"]),
    "unknown layout": (
        "layout: one", "layout: two", 16, "profiles.cpu.layout", "two", ["no such layout; defined are: one"]),
    "unknown method": (
        "parent: cpu", "method: magic", 18, "profiles.gpu.method", "magic", ["'image', 'autoinstall' or 'preseed'"]),
    "bad branch": (
        "parent: cpu", "nvidia_branch: newest",
        18, "profiles.gpu.nvidia_branch", "newest", ["none, auto, a branch such as 580 or 580-open"]),
    "packages that are no list": (
        "parent: cpu", "packages: vim", 18, "profiles.gpu.packages", "vim", ["use a list, such as [a, b]"]),
    "quote in a text": (
        "parent: cpu", "description: \"it's\"", 18, "profiles.gpu.description", "it's", ["is not allowed here"]),
    "template braces in a text": (
        "parent: cpu", "console: '{{ x }}'", 18, "profiles.gpu.console", "{{ x }}", ["'{{' is not allowed"]),
    "line break in a text": (
        "parent: cpu", 'console: "a\\nb"', 18, "profiles.gpu.console", r"a\nb", ["control characters"]),
    "block instead of text": (
        "cluster: demo", "cluster: {a: b}", 1, "cluster", "{'a': 'b'}", ["use text"]),
    "text instead of a block": (
        "layouts:\n", "time: now\nlayouts:\n", 19, "time", "now", ["use a block of keys and values"]),
    "size that is none": (
        "size: rest", "size: lots", 23, "layouts.one.volumes[0].size", "lots", ["such as 512M, 1.5T, 20% or rest"]),
    "volume on no disk": (
        "on: system", "on: moon", 23, "layouts.one.volumes[0].on", "moon", ["use one of this layout's system"]),
    "relative mount": ("mount: /", "mount: var", 23, "layouts.one.volumes[0].mount", "var", ["an absolute path"]),
    "missing head": ("    head: 10.20.0.1\n", "", 4, "networks.provision.head", None, ["is missing"]),
    "missing domain": ("domain: demo.lan\n", "", 1, "domain", None, ["is missing; it is needed: DNS domain"]),
    "no provision network": (
        "  provision:\n", "  lan:\n", 3, "networks", "lan, management", ["add the one named provision"]),
    "external directory without address": (
        "layouts:\n", "directory: {mode: external}\nlayouts:\n", 19, "directory.uri", None, ["is missing"]),
    "ids backwards": (
        "layouts:\n", "directory: {first_id: 9000, last_id: 8000}\nlayouts:\n",
        19, "directory.last_id", "8000", ["use more than 9000"]),
    "database of another kind": (
        "layouts:\n", "database: {url: mysql://x/y}\nlayouts:\n",
        19, "database.url", "mysql://x/y", ["such as postgresql://"]),
    "history too short": (
        "layouts:\n", "database: {keep_days: 7}\nlayouts:\n", 19, "database.keep_days", "7", ["at least 30"]),
    "severity of no kind": (
        "layouts:\n", "notify: {severity: fatal}\nlayouts:\n",
        19, "notify.severity", "fatal", ["'info', 'warning' or 'error'"]),
    "webhook instead of its file": (
        "layouts:\n", "notify: {webhook_file: https://hooks.example.org/T0/secret}\nlayouts:\n",
        19, "notify.webhook_file", "https://…", ["put the address into a file that only root can read"]),
    "webhook in a relative file": (
        "layouts:\n", "notify: {webhook_file: webhook}\nlayouts:\n",
        19, "notify.webhook_file", "webhook", ["an absolute path"]),
    "mail to nobody": (
        "layouts:\n", "notify:\n  mail_to: [ops@example.org, ops]\nlayouts:\n",
        20, "notify.mail_to[1]", "ops", ["such as ops@example.org"]),
    "mail to two in one": (
        "layouts:\n", "notify: {mail_to: ['a@example.org, b@example.org']}\nlayouts:\n",
        19, "notify.mail_to[0]", "a@example.org, b@example.org", ["use one address"]),
    "mail to a text": (
        "layouts:\n", "notify: {mail_to: ops@example.org}\nlayouts:\n",
        19, "notify.mail_to", "ops@example.org", ["use a list"]),
    "mail from a name": (
        "layouts:\n", "notify: {mail_from: Head Node}\nlayouts:\n",
        19, "notify.mail_from", "Head Node", ["use one address"]),
    "mail server of no port": (
        "layouts:\n", "notify: {smtp: 'mail.example.org:smtp'}\nlayouts:\n",
        19, "notify.smtp", "mail.example.org:smtp", ["use HOST:PORT"]),
    "mail server of an impossible port": (
        "layouts:\n", "notify: {smtp: 'mail.example.org:99999'}\nlayouts:\n",
        19, "notify.smtp", "mail.example.org:99999", ["use HOST:PORT"]),
    "mail server with a scheme": (
        "layouts:\n", "notify: {smtp: 'smtp://mail.example.org'}\nlayouts:\n",
        19, "notify.smtp", "smtp://mail.example.org", ["use HOST:PORT"]),
    "rack of no height": (
        "layouts:\n", "racks: {r1: {units: 0}}\nlayouts:\n", 19, "racks.r1.units", "0", ["at least 1"]),
    "bad profile name": ("  gpu:\n", "  'g p u':\n", 17, "profiles.g p u", "g p u", ["use up to 64 letters"]),
    "yes instead of true": (
        "disks: {system: {}}", "disks: {system: {rotational: maybe}}",
        21, "layouts.one.disks.system.rotational", "maybe", ["use true or false"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_problem_is_one_sentence_with_file_line_field_value_and_advice(kind: str) -> None:
    before, after, line, field, value, advice = PROBLEMS[kind]
    (problem,) = [text for text in problems(changed(before, after)) if f" {field} " in text]
    assert problem.startswith(f"site.yaml:{line}: {field} ")
    if value is not None:
        assert f" is '{value}'; " in problem
    for words in advice:
        assert words in problem


def test_a_webhooks_address_is_not_repeated() -> None:
    """Whoever knows it may post to it, and messages end up in logs."""
    (problem,) = problems(VALID + "notify: {webhook_file: https://hooks.example.org/T0/secret}\n")
    assert "secret" not in problem
    assert "hooks.example.org" not in problem


@pytest.mark.parametrize("smtp", ["localhost", "mail.example.org:587", "10.0.0.1:2525"])
def test_mail_servers_that_are_right(smtp: str) -> None:
    text = f"{VALID}notify: {{smtp: '{smtp}', mail_from: head.node+x@a-b.example.org, mail_to: [o@localhost]}}\n"
    assert sitefile.parse(text.encode(), "site.yaml").notify.smtp == smtp


def test_all_problems_are_told_at_once() -> None:
    found = problems(changed("demo.lan", "x").replace("10.20.0.0/16", "x").replace("cluster: demo", "cluster: x y"))
    assert [problem.split()[1] for problem in found] == ["cluster", "domain", "networks.provision.cidr"]


NOT_YAML: dict[str, tuple[str | bytes, str]] = {
    "not yaml": ("cluster: [", "site.yaml:1: this is not YAML"),
    "tab": ("cluster: demo\n\tdomain: x", "site.yaml:2: this is not YAML"),
    "duplicate key": ("cluster: a\ndomain: b\ncluster: c", "site.yaml:1: cluster is given twice; keep one"),
    "duplicate key deeper": ("networks:\n  a: {}\n  b: {x: 1, x: 2}", "site.yaml:3: networks.b.x is given twice"),
    "two documents": ("a: 1\n---\nb: 2", "site.yaml:2: this is not YAML"),
    "not text": (b"\xff\xfe\x00\x00", "site.yaml:1: this is not YAML text"),
    "control character": (b"cluster: \x00", "site.yaml:1: this is not YAML text"),
    "python object": ("cluster: !!python/object/apply:os.system [ls]", "site.yaml:1: cluster is"),
    "impossible date": ("cluster: 2001-99-99", "site.yaml:1: cluster is '2001-99-99'; put it in quotes"),
    "complex key": ("? [a, b]\n: c", "site.yaml:1: a key must be a plain word"),
    "list": ("- a\n- b", "site.yaml:1: the file is"),
    "word": ("hello", "site.yaml:1: the file is 'hello'"),
    "deep": ("[" * 5000, "nested too deeply"),
    "merge of a word": ("a: 1\n<<: b", "site.yaml:2: '<<' takes in a block"),
    "huge": (b"#" * (5 * 1024 * 1024), "at most"),
}


@pytest.mark.parametrize("kind", NOT_YAML)
def test_a_file_that_is_not_a_site_is_refused_in_one_sentence(kind: str) -> None:
    text, expected = NOT_YAML[kind]
    assert expected in problems(text)[0]


def test_an_empty_file_says_what_is_needed() -> None:
    assert {line.split()[1] for line in problems("")} == {"cluster", "domain", "networks"}


def bomb(opening: str, reference: str, closing: str) -> str:
    lines = [f"a0: &a0 {opening}x: y{closing}" if opening == "{" else "a0: &a0 [x]"]
    for level in range(1, 12):
        inside = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {opening}{reference.format(inside)}{closing}")
    return "\n".join(lines)


@pytest.mark.parametrize("text", [bomb("[", "{}", "]"), bomb("{", "<<: [{}]", "}")], ids=["aliases", "merges"])
def test_a_bomb_of_aliases_is_refused_before_it_explodes(text: str) -> None:
    assert problems(text)


def test_very_many_keys_are_read_in_reasonable_time() -> None:
    problems("networks:\n" + "".join(f"  n{number}: 1\n" for number in range(20_000)))


def test_an_alias_of_itself_is_refused() -> None:
    problems("a: &a\n  b: *a")
    problems("a: &a [*a]")
    problems("a: &a {<<: *a}")


def test_merged_keys_are_read_and_the_nearest_wins() -> None:
    data, _ = sitefile.read_yaml(b"a: &a {x: 1, y: 2}\nb: &b {y: 3}\nc: {<<: [*a, *b], x: 9}\nd: {<<: *a}", "f")
    assert data == yaml.safe_load("{a: {x: 1, y: 2}, b: {y: 3}, c: {x: 9, y: 2}, d: {x: 1, y: 2}}")


@pytest.mark.parametrize(("written", "read"), [("24.10", "24.10"), ("12", "12"), ("24.04", "24.04"), ("'9'", "9")])
def test_a_release_is_read_as_it_is_written(written: str, read: str) -> None:
    site = sitefile.parse(changed("parent: cpu", f"release: {written}").encode(), "site.yaml")
    assert site.profiles["gpu"].release == read


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(HeadnodeError) as caught:
        sitefile.load(tmp_path / "site.yaml")
    assert "headnode init" in caught.value.hint


def test_an_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HeadnodeError, match="cannot be read: Is a directory"):
        sitefile.load(tmp_path)


def test_the_schema_knows_every_block_and_is_json(root: Path) -> None:
    schema = json.loads(headnode(root, "site", "schema").out)
    assert set(Site.model_fields) == set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert "description" in schema["$defs"]["Network"]["properties"]["cidr"]


def test_every_setting_is_described() -> None:
    described = re.findall(r'"description"', json.dumps(Site.model_json_schema()))
    assert len(described) > 60


def test_site_check_says_what_was_found_and_what_is_wrong(root: Path) -> None:
    fine = headnode(root, "site", "check")
    assert (fine.code, "no problems" in fine.err) == (0, True)
    file = root / "etc/headnode/site.yaml"
    file.write_text(file.read_text().replace('domain: "demo.lan"', "domain: nonsense"))
    wrong = headnode(root, "site", "check")
    assert wrong.code == 2
    assert f"headnode: {file}:5: domain is 'nonsense'; use a DNS domain" in wrong.err


def test_an_address_range_knows_its_members() -> None:
    found = AddressRange.parse("10.0.0.1-10.0.0.3")
    assert [str(address) for address in found] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert len(found) == 3
    assert next(iter(found)) in found
    assert "10.0.0.1" not in found
    assert found == AddressRange.parse(found)
    assert hash(found) == hash(AddressRange.parse("10.0.0.1-10.0.0.3"))


def test_an_unquoted_branch_is_a_branch() -> None:
    text = VALID.replace("parent: cpu", "{parent: cpu, nvidia_branch: 580}")
    assert sitefile.parse(text.encode(), "site.yaml").profiles["gpu"].nvidia_branch == "580"


@pytest.fixture(scope="module")
def editor() -> Draft202012Validator:
    """What an editor makes of `headnode site schema`."""
    schema = Site.model_json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_an_editor_takes_the_site_that_init_writes(root: Path, editor: Draft202012Validator) -> None:
    data, _ = sitefile.read_yaml((root / "etc/headnode/site.yaml").read_bytes(), "site.yaml")
    assert [*editor.iter_errors(data)] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cluster: demo", "cluster: Demo Cluster"),
        ("domain: demo.lan", "domain: demo"),
        ("domain: demo.lan", ""),
        ("profiles:", "profile:"),
        ("cidr: 10.20.0.0/16", "cidr: 10.20.0.0"),
        ("interface: eth1", "interface: eth1 and eth2"),
        ("10.20.1.0-10.20.1.255", "10.20.1.0"),
        ("head: 10.20.0.1", "head: {address: 10.20.0.1}"),
        ("size: rest", "size: some"),
        ("parent: cpu", "os: windows"),
        ("interface: eth1", "vlan: 5000"),
    ],
)
def test_an_editor_refuses_what_we_refuse(editor: Draft202012Validator, before: str, after: str) -> None:
    assert before in VALID
    text = VALID.replace(before, after, 1).encode()
    with pytest.raises(InvalidSite):
        sitefile.parse(text, "site.yaml")
    assert [*editor.iter_errors(sitefile.read_yaml(text, "site.yaml")[0])]


def test_an_editor_takes_numbers_where_we_do(editor: Draft202012Validator) -> None:
    text = VALID.replace("parent: cpu", "{parent: cpu, nvidia_branch: 580, release: 24.04}").encode()
    sitefile.parse(text, "site.yaml")
    assert [*editor.iter_errors(sitefile.read_yaml(text, "site.yaml")[0])] == []
