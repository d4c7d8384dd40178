"""People without a directory: what may be said of them, who gets which number, and what an import would do."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode import authority, sitefile
from headnode.directory.connect import escaped
from headnode.directory.entries import Person, foundation, group_of, person_attributes, person_of, vocabulary
from headnode.errors import HeadnodeError, InvalidField, InvalidInput, InvalidSite, Taken
from headnode.ldaptree import Tree
from headnode.model import Holder, Numbered
from headnode.site import Directory, Site
from headnode.workflows import breakglass, peopleimport, personfields
from headnode.workflows.context import Context
from headnode.workflows.personfields import Wish
from headnode.workflows.verdicts import Verdict
from tests.support import headnode

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBuUc3Mpkj0LlCnTuKkPWOIQa3jKJ0Qp0kHQf2XhC1Zb ada@example"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
LIMITS = Directory(first_id=20_000, last_id=20_005)


def reserve(context: Context, kind: Holder, wanted: dict[str, int | None]) -> dict[str, int]:
    with context.inventory.change("tester", "a test") as change:
        return change.reserve_numbers(kind, wanted, LIMITS.first_id, LIMITS.last_id)


@pytest.mark.parametrize(
    ("attribute", "value", "locked"),
    [
        ("pwdAccountLockedTime", b"000001010000Z", True),
        ("pwdAccountLockedTime", b"20300101000000Z", False),
        ("nsAccountLock", b"TRUE", True),
        ("nsaccountlock", b"false", False),
        ("userAccountControl", b"514", True),
        ("userAccountControl", b"512", False),
        ("userAccountControl", b"", False),
    ],
)
def test_every_directory_says_locked_in_its_own_way(attribute: str, value: bytes, locked: bool) -> None:
    entry = {"uid": [b"ada"], attribute: [value]}
    assert person_of(entry, vocabulary(LIMITS)).locked is locked


# The ledger.


def test_numbers_are_given_once(context: Context) -> None:
    assert reserve(context, Holder.USER, {"ada": None, "bob": None}) == {"ada": 20_000, "bob": 20_001}
    assert reserve(context, Holder.USER, {"ada": None}) == {"ada": 20_000}, "what was interrupted goes on"
    assert reserve(context, Holder.GROUP, {"vision": None}) == {"vision": 20_002}
    with context.inventory.change("tester", "a test") as change:
        change.retire_numbers(Holder.USER, ["ada"])
    assert reserve(context, Holder.USER, {"carol": None}) == {"carol": 20_003}
    assert reserve(context, Holder.USER, {"ada": None}) == {"ada": 20_004}, "another Ada, for all we know"
    with pytest.raises(Taken, match="user bob's, and is never given"):
        reserve(context, Holder.USER, {"dave": 20_001})
    with pytest.raises(Taken, match="user ada's until 20"):
        reserve(context, Holder.USER, {"dave": 20_000})
    with pytest.raises(Taken, match="name of a group"):
        reserve(context, Holder.USER, {"vision": None})
    with pytest.raises(Taken, match="has the number 20001 already"):
        reserve(context, Holder.USER, {"bob": 20_005})
    with pytest.raises(InvalidField, match="use one from 20000 to 20005"):
        reserve(context, Holder.USER, {"dave": 1000})
    with pytest.raises(Taken):
        reserve(context, Holder.USER, {"dave": 20_005, "erin": 20_005})
    assert reserve(context, Holder.USER, {"erin": None}) == {"erin": 20_005}
    with pytest.raises(InvalidInput, match="every number from 20000 to 20005 has been given"):
        reserve(context, Holder.USER, {"dave": None})


def test_somebody_who_comes_back_may_have_their_number_again(context: Context) -> None:
    reserve(context, Holder.USER, {"ada": None})
    with context.inventory.change("tester", "a test") as change:
        change.retire_numbers(Holder.USER, ["ada"])
    assert reserve(context, Holder.USER, {"ada": 20_000}) == {"ada": 20_000}
    assert [entry.removed for entry in context.inventory.numbers()] == [None]


def test_a_refusal_gives_nobody_a_number(context: Context) -> None:
    reserve(context, Holder.USER, {"ada": None})
    with pytest.raises(Taken):
        reserve(context, Holder.USER, {"bob": None, "carol": 20_000})
    assert [entry.name for entry in context.inventory.numbers()] == ["ada"]


# What may be said of somebody.


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        (Wish("Ada"), "name"), (Wish("a b"), "name"), (Wish("1ada"), "name"), (Wish("a" * 33), "name"),
        (Wish("root"), "name"), (Wish("docker"), "name"), (Wish("systemd-x"), "name"), (Wish("a*"), "name"),
        (Wish("ada", "x\ny"), "full name"), (Wish("ada", "x" * 201), "full name"), (Wish("ada", " x"), "full name"),
        (Wish("ada", email="nobody"), "email"), (Wish("ada", email="a@b c"), "email"),
        (Wish("ada", shell="bash"), "shell"), (Wish("ada", shell="/bin/../x"), "shell"),
        (Wish("ada", ssh_keys=("ssh-ed25519 AAAA",)), "ssh key"),
        (Wish("ada", ssh_keys=(f'command="x" {KEY}',)), "ssh key"),
        (Wish("ada", ssh_keys=(KEY.replace("ed25519 ", "rsa "),)), "ssh key"), (Wish("ada", groups=("A",)), "group"),
        (Wish("ada", ssh_keys=(f"{KEY}\n{KEY}",)), "ssh key"),
    ],
)  # fmt: skip
def test_what_cannot_be(wish: Wish, field: str) -> None:
    with pytest.raises(InvalidField) as error:
        personfields.judge(wish)
    assert error.value.field == field


def test_a_private_key_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidField) as error:
        personfields.public_key("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0")
    assert "c2VjcmV0" not in str(error.value)


@given(st.text(max_size=60))
def test_no_text_is_part_of_a_filter(text: str) -> None:
    found = escaped(text)
    assert not set(found) & set("()*\0")
    # And it still means the same: each backslash begins a pair of digits.
    assert re.sub(r"\\([0-9a-f]{2})", lambda pair: chr(int(pair[1], 16)), found) == text
    assert (
        text == ""
        or "\\"
        not in escaped(text)
        .replace("\\5c", "")
        .replace("\\28", "")
        .replace("\\29", "")
        .replace("\\2a", "")
        .replace("\\00", "")
        or not text.isascii()
    )


def test_a_person_becomes_an_entry_and_back() -> None:
    person = Wish("ada", "Ada: Countess, of Lovelace", "ada@example.org", (KEY,)).person(20_001)
    attributes = person_attributes(person)
    assert attributes["gecos"] == ["Ada  Countess  of Lovelace"]
    raw = {key: [value.encode() for value in values] for key, values in attributes.items()}
    assert person_of(raw, vocabulary(Directory())) == person
    locked = {**raw, "pwdAccountLockedTime": [b"000001010000Z"], "memberOf": [b"cn=vision,ou=groups,dc=x"]}
    found = person_of(locked, vocabulary(Directory()))
    assert (found.locked, found.groups) == (True, ("vision",))
    assert not person_of({**raw, "pwdAccountLockedTime": [b"20300101000000Z"]}, vocabulary(Directory())).locked


def test_another_directory_has_other_words() -> None:
    words = vocabulary(
        Directory(mode="external", uri="ldaps://ad.example.org", flavour="ad", attributes={"full_name": "cn"})
    )
    entry = {"sAMAccountName": [b"ada"], "uidNumber": [b"7001"], "cn": [b"Ada"], "unixHomeDirectory": [b"/h/ada"]}
    found = person_of(entry, words)
    assert (found.name, found.number, found.full_name, found.home) == ("ada", 7001, "Ada", "/h/ada")
    group = group_of({"cn": [b"g"], "gidNumber": [b"7"], "member": [b"CN=ada,OU=x"]}, words)
    assert group.members == ("ada",)


def test_the_foundation_follows_the_site(site: Site) -> None:
    plain = {wanted.dn: wanted for wanted in foundation(site, Tree.of(site), 20_000)}
    rule = plain["cn=headnode,ou=sudoers,dc=demo,dc=lan"]
    assert rule.kept["sudoUser"] == []
    access = site.access.model_copy(update={"sudo_group": "wheel"})
    changed = foundation(site.model_copy(update={"access": access}), Tree.of(site), 20_000)
    assert changed[-1].kept["sudoUser"] == ["%wheel"]
    assert "cn=admin,ou=groups,dc=demo,dc=lan" in plain


# Imports.


def plan(
    text: str, there: tuple[Person, ...] = (), ledger: tuple[Numbered, ...] = (), **more: bool
) -> peopleimport.Plan:
    rows = peopleimport.read(text, "people.csv", **more)
    return peopleimport.plan(rows, there, ["vision"], ledger, LIMITS)


def test_an_import_says_what_becomes_of_every_row() -> None:
    bob = Wish("bob", "Bob").person(20_001)
    made = plan(
        f"name;full_name;groups;ssh_keys\nada;Ada;vision;{KEY}|{KEY}x\nbob;Bob;;\ncarol;Carol;vision;\n",
        (bob,), (Numbered(20_001, Holder.USER, "bob", NOW),),
    )  # fmt: skip
    assert [(item.name, item.verdict) for item in made.items] == [
        ("ada", Verdict.NEW), ("bob", Verdict.UNCHANGED), ("carol", Verdict.NEW),
    ]  # fmt: skip
    assert made.new[0].ssh_keys == (KEY, f"{KEY}x")
    assert "full_name of bob is 'Bob' in the directory" in plan("name,full_name\nbob,Robert\n", (bob,)).problems[0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("ada,20009", "use one from 20000 to 20005"), ("ada,x", "uid is 'x'"), ("ada,20001", "it is the user bob's"),
        ("vision,", "the name of a group"), ("bob,20003", "bob has 20001 already"), ("ada,-1", "uid is '-1'"),
    ],
)  # fmt: skip
def test_an_import_knows_whose_every_number_is(row: str, said: str) -> None:
    ledger = (Numbered(20_001, Holder.USER, "bob", NOW), Numbered(20_002, Holder.GROUP, "vision", NOW))
    assert any(said in problem for problem in plan(f"name,uid\n{row}\n", ledger=ledger).problems)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"), ("full_name\nAda\n", "'name' is missing"), ("name,password\nada,x\n", "is not a column"),
        ("name,name\nada,x\n", "is there twice"), ('name\n"ada\n', "not CSV"),
        ("root:x:0:0::/root:/bin/sh\n", "nobody"), ("name,groups\nada,a,b\n", "line 2: 3 values for 2 columns"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_says_why(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plan(text)


def test_passwd_gives_people_and_damaged_lines_are_named() -> None:
    made = plan("root:x:0:0::/root:/bin/sh\nada:x:20003:100:Ada L,Room 1:/home/ada:/bin/zsh\nbroken:x\n")
    assert [(wish.name, wish.full_name, wish.number) for wish in made.new] == [("ada", "Ada L", 20_003)]
    assert "people.csv, line 3" in made.problems[0]
    renumbered = plan("root:x:0:0::/root:/bin/sh\nada:x:1000:1000:Ada:/home/ada:/bin/zsh\n", renumber=True)
    assert renumbered.new[0].number is None


# Around it.


def test_without_a_directory_everybody_is_told(root: Path) -> None:
    for words in (["user", "list"], ["user", "add", "ada"], ["group", "list"]):
        done = headnode(root, *words)
        assert (done.code, "the directory is not running" in done.err) == (1, True)


@pytest.mark.program("openssl")
def test_the_break_glass_password_is_sealed(root: Path, context: Context) -> None:
    assert (
        "names no such account"
        in headnode(root, "user", "passwd", "--break-glass", "--password-stdin", stdin=b"x\n").err
    )
    file = root / "etc/headnode/site.yaml"
    file.write_text(file.read_text() + "access: {admin_user: rescue}\n")
    done = headnode(root, "user", "passwd", "--break-glass", "--password-stdin", stdin=b"a long password\n")
    assert done.code == 0, done.err
    assert breakglass.admin_hash(context).startswith("$6$")
    stored = context.inventory.secret(breakglass.SECRET) or ""
    assert "$6$" not in stored
    assert headnode(root, "user", "passwd", "--break-glass", "ada", "--password-stdin", stdin=b"x\n").code == 2
    assert headnode(root, "user", "passwd", "ada").code == 2, "nobody can be asked"


@pytest.mark.parametrize("text", ["directory: {admin_group: 'a+b'}", "access: {sudo_group: Wheel}",
                                  "defaults: {access: ['a.b']}", "directory: {base_dn: 'dc=a)(x'}",
                                  "access: {admin_user: Rescue}"])  # fmt: skip
def test_names_that_no_directory_takes_are_refused_in_the_site(root: Path, text: str) -> None:
    key = text.partition(":")[0]
    lines = (root / "etc/headnode/site.yaml").read_text()
    lines = (
        lines.replace("\ndefaults:\n  os: debian\n", "\nx-defaults:\n  os: debian\n") if key == "defaults" else lines
    )
    with pytest.raises(InvalidSite):
        sitefile.parse(f"{lines.split('x-defaults')[0]}\n{text}\n".encode(), "site.yaml")


def test_a_certificate_is_made_anew_when_it_has_to_be(root: Path, tmp_path: Path) -> None:
    ca, place = root / "etc/headnode/ca", tmp_path / "tls"
    names = ["head.demo.lan", "10.20.0.1"]
    authority.sign_server(ca, place, "slapd", names, "demo")
    first = (place / "slapd.crt").read_bytes()
    authority.sign_server(ca, place, "slapd", names, "demo")
    assert (place / "slapd.crt").read_bytes() == first
    assert authority.is_good(ca, place / "slapd.crt", names)
    authority.sign_server(ca, place, "slapd", [*names, "10.22.0.1"], "demo")
    second = (place / "slapd.crt").read_bytes()
    assert second != first
    # Another authority, as after an init on a new machine: what it did not sign is worth nothing.
    other = tmp_path / "ca"
    authority.create(other, "demo")
    assert not authority.is_good(other, place / "slapd.crt", [*names, "10.22.0.1"])
    (place / "slapd.crt").write_text("garbage")
    authority.sign_server(ca, place, "slapd", names, "demo")
    assert authority.is_good(ca, place / "slapd.crt", names)


def test_an_external_directory_that_is_away_is_one_sentence(root: Path) -> None:
    file = root / "etc/headnode/site.yaml"
    file.write_text(file.read_text() + "directory: {mode: external, uri: 'ldaps://127.0.0.1:1', ca_file: /missing}\n")
    assert "No such file" in headnode(root, "user", "list").err
    file.write_text(file.read_text().replace(", ca_file: /missing", ""))
    assert "does not answer" in headnode(root, "user", "list").err
    assert HeadnodeError.exit_code == headnode(root, "user", "list").code
