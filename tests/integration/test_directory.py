"""The directory and the people in it: a real slapd, OpenLDAP's own clients, and the command line."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.accounts import Role
from headnode.lab.lab import lab
from headnode.model import Holder
from headnode.workflows import doors
from headnode.workflows.context import Context
from headnode.workflows.standing import Standing
from tests.integration.people_site import BASE, SITE, PeopleSite, add_one, key_pair, people_site
from tests.support import refused_by_both

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("slapd", "ldapsearch", "ldapwhoami", "ldapmodify", "ldappasswd", "ssh-keygen"),
]
PASSWORD = "correct horse battery"
ALICE, BOB = f"uid=alice,ou=people,{BASE}", f"uid=bob,ou=people,{BASE}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeopleSite]:
    """One for all: every test here adds people of its own. Alice is an administrator, Bob is not."""
    place = tmp_path_factory.mktemp("people")
    with lab(f"p{os.getpid():x}", logs=place) as running, people_site(running, place / "root") as made:
        made.ok("group", "add", "vision", "--description", "computer (vision) *")
        words = ["--name", "Alice Doe", "--email", "alice@example.org", "--groups", "admin,vision", "--password-stdin"]
        made.ok("user", "add", "alice", *words, stdin=f"{PASSWORD}\n".encode())
        made.ok("user", "add", "bob", "--name", "Bob", "--password-stdin", stdin=f"{PASSWORD}\n".encode())
        yield made


def person(site: PeopleSite, name: str) -> dict[str, object]:
    (found,) = json.loads(site.ok("user", "show", name, "-o", "json").out)
    assert isinstance(found, dict)
    return found


# What strangers are told.


def test_strangers_see_what_sssd_needs_and_nothing_else(site: PeopleSite) -> None:
    said = site.ldap("ldapsearch", "-LLL", "-b", BASE, "(objectClass=*)", "*", "+").stdout
    assert f"dn: {ALICE}" in said
    assert "uidNumber: " in said
    assert f"memberOf: cn=vision,ou=groups,{BASE}" in said
    for secret in ("userPassword", "mail", "alice@example.org", "pwdHistory", "ARGON2", "$6$"):
        assert secret not in said
    # Nor can they find out by asking whether a guess is right.
    assert site.ldap("ldapsearch", "-LLL", "-b", BASE, "(mail=alice*)", "dn").stdout == ""
    assert site.ldap("ldapsearch", "-LLL", "-b", BASE, "(userPassword=*)", "dn").stdout == ""


def test_nothing_is_said_in_clear(site: PeopleSite) -> None:
    clear = site.ldap("ldapwhoami", tls=False, who=BOB, password=PASSWORD)
    assert "Confidentiality required (13)" in clear.stderr
    assert "Confidentiality required" in site.ldap("ldapsearch", "-LLL", "-b", BASE, tls=False).stderr
    assert site.ldap("ldapwhoami", who=BOB, password=PASSWORD).stdout == f"dn:{BOB}\n"


def test_an_empty_or_wrong_password_never_binds(site: PeopleSite) -> None:
    assert "unauthenticated bind" in site.ldap("ldapwhoami", who=BOB, password="").stderr
    assert "Invalid credentials (49)" in site.ldap("ldapwhoami", who=BOB, password="wrong").stderr
    # Somebody without any password cannot log in with one, least of all the empty one.
    site.ok("user", "add", "keyonly")
    for word in ("", " ", "{none}"):
        assert site.ldap("ldapwhoami", who=f"uid=keyonly,ou=people,{BASE}", password=word).returncode != 0
    assert site.cli("user", "passwd", "keyonly", "--password-stdin", stdin=b"\n").code == 2
    assert site.cli("user", "passwd", "keyonly", "--password-stdin", stdin=b"short\n").code == 2
    assert site.ldap("ldapwhoami", who=f"cn=headnode,{BASE}", password="").returncode != 0


def test_a_certificate_of_somebody_else_is_refused(site: PeopleSite, tmp_path: Path) -> None:
    key = tmp_path / "other.key"
    argv = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=other"]
    subprocess.run([*argv, "-keyout", key, "-out", tmp_path / "other.crt"], check=True, capture_output=True)
    words = ["env", f"LDAPTLS_CACERT={tmp_path / 'other.crt'}", "ldapwhoami", "-x", "-ZZ", "-H", "ldap://10.20.0.1"]
    assert "Connect error" in site.head.run(words, check=False).stderr


# Who may change what.


def test_administrators_write_and_others_do_not(site: PeopleSite) -> None:
    change = f"dn: {BOB}\nchangetype: modify\nreplace: loginShell\nloginShell: /bin/zsh\n"
    assert "Insufficient access" in modify(site, BOB, change).stderr
    assert modify(site, ALICE, change).returncode == 0
    assert person(site, "bob")["shell"] == "/bin/zsh"
    number = change.replace("loginShell", "uidNumber").replace("/bin/zsh", str(person(site, "alice")["uid"]))
    # Even they cannot give somebody a number that another has.
    assert "Constraint violation" in modify(site, ALICE, number).stderr


def modify(site: PeopleSite, who: str, change: str) -> "subprocess.CompletedProcess[str]":
    argv = ["env", f"LDAPTLS_CACERT={site.paths.ca / 'ca.crt'}", "ldapmodify", "-x", "-ZZ", "-H", "ldap://10.20.0.1"]
    command = [str(word) for word in site.head.argv([*argv, "-D", who, "-w", PASSWORD])]
    return subprocess.run(command, input=change, capture_output=True, text=True, check=False)


def test_people_change_their_own_password_and_no_other(site: PeopleSite) -> None:
    site.ok("user", "add", "carol", "--password-stdin", stdin=f"{PASSWORD}\n".encode())
    carol = f"uid=carol,ou=people,{BASE}"
    assert site.ldap("ldappasswd", "-s", "another long one", BOB, who=carol, password=PASSWORD).returncode != 0
    assert "Constraint violation" in site.ldap("ldappasswd", "-s", "short", who=carol, password=PASSWORD).stdout
    assert site.ldap("ldappasswd", "-s", "another long one", who=carol, password=PASSWORD).returncode == 0
    assert site.ldap("ldapwhoami", who=carol, password="another long one").returncode == 0
    assert site.ldap("ldapwhoami", who=carol, password=PASSWORD).returncode != 0


def test_the_reader_reads_everything_but_passwords(site: PeopleSite, tmp_path: Path) -> None:
    file = tmp_path / "reader.password"
    said = site.ok("user", "reader", "--password-file", str(file))
    secret = file.read_text().strip()
    assert secret not in said.out + said.err
    assert file.stat().st_mode & 0o777 == 0o600
    dn = said.out.splitlines()[1]
    found = site.ldap("ldapsearch", "-LLL", "-b", BASE, "(uid=alice)", "*", who=dn, password=secret).stdout
    assert "mail: alice@example.org" in found
    assert "userPassword" not in found
    change = f"dn: {BOB}\nchangetype: modify\nreplace: loginShell\nloginShell: /bin/sh\n"
    assert modify(site, dn, change).returncode != 0


# The command line.


HOSTILE = (
    "*",
    "alice)(uid=*",
    "a\\2a",
    "a,ou=x",
    "ali\nce",
    "*)(objectClass=*))(|(a=",
    "\0",
    "a b",
    "#1",
    "é",
    "ALICE",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_characters_of_filters_are_inert_in_every_field(site: PeopleSite, text: str) -> None:
    before = site.ok("user", "list", "-o", "csv").out
    for words in (
        ["user", "show", text], ["user", "lock", text], ["user", "remove", text, "--yes"], ["user", "add", text],
        ["user", "set", text, "--name", "x", "--yes"], ["group", "members", text], ["group", "add", text],
        ["group", "remove", text, "--yes"], ["user", "add", "zoe", "--groups", text],
        ["group", "members", "vision", "--add", text], ["user", "add", "zoe", "--email", text],
        ["user", "add", "zoe", "--shell", text], ["user", "add", "zoe", "--ssh-key", text],
    ):  # fmt: skip
        done = site.cli(*words)
        assert done.code == 2, f"{words}: {done}"
    assert site.ok("user", "list", "-o", "csv").out == before


def test_a_full_name_may_hold_anything_that_fits_on_a_line(site: PeopleSite) -> None:
    name = "Zoë (Z*) \\2a O'Brien: a,b #1 <x>"
    site.ok("user", "add", "zoe2", "--name", name)
    assert person(site, "zoe2")["full_name"] == name
    assert site.cli("user", "set", "zoe2", "--name", "two\nlines", "--yes").code == 2


def test_a_life(site: PeopleSite, tmp_path: Path) -> None:
    key = Path(f"{key_pair(tmp_path, 'dora')}.pub")
    assert "nothing was changed" in site.ok("user", "add", "dora", "--dry-run").err
    assert site.cli("user", "show", "dora").code == 2
    site.ok("user", "add", "dora", "--ssh-key", str(key), "--groups", "vision")
    made = person(site, "dora")
    assert made["ssh_keys"] == [key.read_text().strip()]
    home = site.root / "srv/home/dora"
    assert (home.stat().st_uid, home.stat().st_gid, home.stat().st_mode & 0o777) == (made["uid"], made["uid"], 0o700)
    again = site.cli("user", "add", "dora")
    assert (again.code, str(made["uid"]) in again.err) == (2, True)
    taken = site.cli("user", "add", "dora2", "--uid", str(made["uid"]))
    assert taken.code == 2
    assert "dora" in taken.err
    site.ok("user", "set", "dora", "--email", "dora@example.org", "--groups", "", "--yes")
    assert person(site, "dora")["groups"] == []
    assert "dora" not in site.ok("group", "members", "vision", "-o", "name").out
    site.ok("user", "lock", "dora")
    assert person(site, "dora")["locked"] is True
    assert person(site, str(made["uid"]))["name"] == "dora"
    (home / "thesis.tex").write_text("…")
    gone = site.ok("user", "remove", "dora", "--yes")
    assert str(home) in gone.err
    assert site.cli("user", "show", "dora").code == 2
    # The number is hers for ever: not the next one's, not anybody's who asks, but hers when she comes back.
    site.ok("user", "add", "emil")
    assert person(site, "emil")["uid"] != made["uid"]
    assert "dora" in site.cli("user", "add", "fritz", "--uid", str(made["uid"])).err
    site.ok("user", "add", "dora", "--uid", str(made["uid"]))
    assert person(site, "dora")["uid"] == made["uid"]


def test_what_was_refused_half_way_is_finished_by_the_same_command(site: PeopleSite) -> None:
    home = site.root / "srv/home/karl"
    home.mkdir(parents=True)
    os.chown(home, 4242, 4242)
    words = ["user", "add", "karl", "--name", "Karl", "--groups", "vision"]
    refused = site.cli(*words)
    assert (refused.code, "belongs to UID 4242" in refused.err) == (1, True), refused
    home.rmdir()
    site.ok(*words)
    assert home.stat().st_uid == person(site, "karl")["uid"]
    assert site.cli("user", "add", "karl", "--name", "Another Karl").code == 2


def test_groups_have_numbers_of_their_own(site: PeopleSite) -> None:
    site.ok("group", "add", "speech")
    (found,) = [g for g in json.loads(site.ok("group", "list", "-o", "json").out) if g["name"] == "speech"]
    clash = site.cli("user", "add", "gerd", "--uid", str(found["gid"]))
    assert (clash.code, "speech" in clash.err) == (2, True)
    assert "name of a group" in site.cli("user", "add", "speech").err
    site.ok("group", "members", "speech", "--add", "bob,alice")
    site.ok("group", "members", "speech", "--remove", "alice")
    assert site.ok("group", "members", "speech", "-o", "name").out == "bob\n"
    assert site.cli("group", "members", "speech", "--add", "nobodyhere").code == 2
    site.ok("group", "remove", "speech", "--yes")
    assert "speech" not in site.ok("user", "show", "bob").out
    assert site.cli("group", "remove", "admin", "--yes").code == 2
    site.ok("group", "add", "speech")
    again = next(g for g in json.loads(site.ok("group", "list", "-o", "json").out) if g["name"] == "speech")
    assert again["gid"] != found["gid"]


def test_fifty_at_once(site: PeopleSite) -> None:
    """Processes, not threads: as fifty administrators would."""
    names = [f"crowd{number:02}" for number in range(50)]
    # Each a fork of a process that has only read the program, as fifty shells would start it.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["tests.integration.people_site"])
    started = [server.Process(target=add_one, args=(str(site.root), name)) for name in names]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    assert [process.exitcode for process in started] == [0] * 50
    found = {p["name"]: p["uid"] for p in json.loads(site.ok("user", "list", "-o", "json").out)}
    assert set(names) <= set(found)
    assert len(set(found.values())) == len(found)
    given = {entry.name: entry.number for entry in site.context.inventory.numbers() if entry.removed is None}
    assert {name: given[name] for name in names} == {name: found[name] for name in names}


# Many from a file.


def test_an_import_names_every_problem_and_changes_nothing(site: PeopleSite, tmp_path: Path) -> None:
    uid = person(site, "alice")["uid"]
    file = tmp_path / "people.csv"
    file.write_text(
        "name,full_name,email,uid,groups,shell\n"
        "good1,Good One,good1@example.org,,vision,\n"
        "Bad Name,,,,,\n"
        f"thief,Thief,,{uid},,\n"
        "lost,,,,nogroup,\n"
        "low,,,1001,,\n"
        "good1,Twice,,,,\n"
        "mail,,not-an-address,,,\n"
    )
    done = site.cli("user", "import", str(file), "--yes")
    assert done.code == 2
    for line, word in ((3, "Bad Name"), (4, "alice"), (5, "nogroup"), (6, "1001"), (7, "line 2"), (8, "name")):
        assert any(f"line {line}:" in said and word in said for said in done.err.splitlines()), (line, done.err)
    assert site.cli("user", "show", "good1").code == 2


BAD = [
    (["user", "add", "newby", "--groups", "nosuch"], "there is no group called 'nosuch'"),
    (["user", "add", "newby", "--uid", "12"], "use one from"),
    (["user", "add", "alice", "--name", "Somebody Else"], "in the directory already"),
    (["user", "add", "vision"], "name of a group"),
    (["user", "add", "newby", "--password-file", "{}/short"], "too short"),
    (["user", "set", "nobody-here", "--email", "a@example.org"], "nobody-here"),
    (["user", "set", "alice", "--groups", "nosuch"], "there is no group called 'nosuch'"),
    (["user", "set", "alice", "--email", "not one"], "email"),
    (["user", "lock", "nobody-here"], "nobody-here"),
    (["user", "remove", "nobody-here"], "nobody-here"),
    (["user", "import", "{}/people.csv"], "there is no group called 'nosuch'"),
    (["group", "add", "vision"], "there is a group 'vision' already"),
    (["group", "add", "newgroup", "--gid", "12"], "use one from"),
    (["group", "add", "alice"], "name of a user"),
    (["group", "members", "vision", "--add", "nobody-here"], "there is nobody called 'nobody-here'"),
    (["group", "members", "nosuch", "--add", "alice"], "nosuch"),
    (["group", "remove", "admin"], "site.yaml gives rights"),
    (["group", "remove", "nosuch"], "nosuch"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "why"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_dry_run_refuses_what_the_real_run_does(site: PeopleSite, tmp_path: Path, words: list[str], why: str) -> None:
    (tmp_path / "short").write_text("abc\n")
    (tmp_path / "people.csv").write_text("name,groups\nnewby,nosuch\n")
    before = site.ok("user", "list", "-o", "json").out, site.context.inventory.numbers()
    code, said = refused_by_both(site.root, *(word.format(tmp_path) for word in words))
    assert code in (1, 2)
    assert why in "\n".join(said)
    assert (site.ok("user", "list", "-o", "json").out, site.context.inventory.numbers()) == before


def test_a_dry_run_says_which_number_it_would_be(site: PeopleSite) -> None:
    dry = json.loads(site.ok("user", "add", "erika", "--dry-run", "-o", "json").out)[0]
    assert json.loads(site.ok("user", "add", "erika", "-o", "json").out)[0] == dry


def test_an_import_from_passwd_takes_people_only(site: PeopleSite, tmp_path: Path) -> None:
    file = tmp_path / "passwd"
    lines = ["root:x:0:0:root:/root:/bin/bash", "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin",
             "hanna:x:1001:1001:Hanna H,,,:/home/hanna:/bin/zsh", "nobody:x:65534:65534::/:/bin/sh",
             "robot:x:1002:1002::/home/robot:/usr/sbin/nologin"]  # fmt: skip
    file.write_text("\n".join(lines) + "\n")
    assert "1001" in site.cli("user", "import", str(file), "--yes").err
    preview = site.ok("user", "import", str(file), "--renumber", "--dry-run")
    assert ("hanna" in preview.out, "robot" in preview.out, "root" in preview.out) == (True, False, False)
    site.ok("user", "import", str(file), "--renumber", "--yes")
    assert (person(site, "hanna")["full_name"], person(site, "hanna")["shell"]) == ("Hanna H", "/bin/zsh")
    assert "1 were there already" in site.ok("user", "import", str(file), "--renumber", "--yes").err


def test_an_import_that_was_killed_goes_on(site: PeopleSite, tmp_path: Path) -> None:
    file = tmp_path / "many.csv"
    rows = [f"many{number:03},Many {number},many{number}@example.org,vision" for number in range(400)]
    file.write_text("\n".join(["name,full_name,email,groups", *rows]) + "\n")
    argv = [sys.executable, "-m", "headnode", "--root", str(site.root), "user", "import", str(file), "--yes"]
    first = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not 0 < count(site, "many") < 400 and first.poll() is None:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    site.ok("user", "import", str(file), "--yes")
    people = {p["name"]: p for p in json.loads(site.ok("user", "list", "-o", "json").out)}
    many = [p for name, p in people.items() if name.startswith("many")]
    assert len(many) == 400
    assert len({p["uid"] for p in people.values()}) == len(people)
    assert all(p["groups"] == ["vision"] for p in many)
    assert all((site.root / f"srv/home/{p['name']}").stat().st_uid == p["uid"] for p in many)
    # Nobody was given a second number on the way.
    given = [n.name for n in site.context.inventory.numbers() if n.kind is Holder.USER and n.name.startswith("many")]
    assert sorted(given) == sorted(p["name"] for p in many)


def count(site: PeopleSite, prefix: str) -> int:
    return sum(line.startswith(prefix) for line in site.ok("user", "list", "-o", "name").out.splitlines())


# Looking for what means two things.


def test_an_audit_names_every_collision(site: PeopleSite) -> None:
    site.ok("user", "add", "ida")
    home = site.root / "srv/home/ida"
    clean = site.cli("user", "audit", "-o", "json")
    assert "ida" not in clean.out
    os.chown(home, 4242, 4242)
    stranger = f"dn: uid=stranger,ou=people,{BASE}\nobjectClass: inetOrgPerson\nobjectClass: posixAccount\n"
    stranger += "uid: stranger\ncn: S\nsn: S\nuidNumber: 59000\ngidNumber: 59000\nhomeDirectory: /home/s\n"
    assert modify(site, ALICE, stranger.replace("objectClass", "changetype: add\nobjectClass", 1)).returncode == 0
    try:
        done = site.cli("user", "audit", "-o", "json")
        said = [item["finding"] for item in json.loads(done.out)]
        assert done.code == 1
        assert any(f"{home} belongs to UID 4242 (nobody), not to ida" in text for text in said), said
        assert any("stranger has the number 59000, which Headnode did not give" in text for text in said), said
        assert "59000" in site.cli("user", "add", "jan", "--uid", "59000").err
    finally:
        site.ok("user", "remove", "stranger", "--yes")
        os.chown(home, int(str(person(site, "ida")["uid"])), int(str(person(site, "ida")["uid"])))


# A directory that is somebody else's.


def test_an_external_directory_is_read_and_never_written(site: PeopleSite, tmp_path: Path) -> None:
    with site.head.inside():
        secret = tmp_path / "secret"
        dn = site.ok("user", "reader", "--password-file", str(secret)).out.splitlines()[1]
        other = tmp_path / "other"
        words = ["--cluster", "demo", "--domain", "demo.lan", "--provision-interface", "eth0"]
        site_with(other, words, f"""directory:
  {{mode: external, uri: "ldap://10.20.0.1", base_dn: "{BASE}", bind_dn: "{dn}", bind_password_file: /secret,
   ca_file: /ca.crt, attributes: {{full_name: gecos}}}}
""")  # fmt: skip
        (other / "secret").write_text(secret.read_text())
        (other / "ca.crt").write_bytes((site.paths.ca / "ca.crt").read_bytes())
        from tests.support import headnode

        said = headnode(other, "user", "show", "alice", "-o", "json")
        assert said.code == 0, said.err
        (alice,) = json.loads(said.out)
        assert (alice["full_name"], alice["email"]) == ("Alice Doe", "alice@example.org")
        assert "vision" in headnode(other, "group", "list", "-o", "name").out
        for command in (["user", "add", "x"], ["user", "lock", "alice"], ["user", "remove", "alice", "--yes"],
                        ["group", "add", "x"], ["user", "passwd", "alice", "--password-stdin"]):  # fmt: skip
            done = headnode(other, *command, stdin=b"a long enough one\n")
            assert (done.code, "external" in done.err) == (2, True), done
        (other / "ca.crt").write_bytes((other / "etc/headnode/ca/ca.crt").read_bytes())
        assert "certificate" in headnode(other, "user", "list").err


def site_with(root: Path, words: list[str], directory: str) -> None:
    from tests.support import headnode

    assert headnode(root, "init", "--yes", *words, "--management-interface", "-").code == 0
    (root / "etc/headnode/site.yaml").write_text(SITE.replace(', admin_keys: ["ROOT-KEY"]', "") + directory)


def test_members_of_a_group_log_in_to_the_pages_with_their_own_password(site: PeopleSite) -> None:
    file = site.paths.site_file
    before = file.read_text()
    file.write_text(before + "web: {groups: {vision: operator}}\n")
    context = Context(site.paths, actor="test", cause="test")
    try:
        made = doors.log_in(context, doors.Brake(), "alice", PASSWORD, "", "here")
        assert (made.name, made.role, made.password) == ("alice", Role.OPERATOR, None)
        for name, password in (("alice", ""), ("alice", "wrong"), ("bob", PASSWORD), ("ali*", PASSWORD), ("eve", "x")):
            with pytest.raises(doors.Refused):
                doors.log_in(context, doors.Brake(), name, password, "", "here")
        token = doors.issue_token(context, made, "script", Role.VIEWER, 1)
        assert Standing().role(context, made) is Role.OPERATOR
        site.ok("user", "lock", "alice")
        with pytest.raises(doors.Refused):
            doors.log_in(context, doors.Brake(), "alice", PASSWORD, "", "here")
        assert Standing().role(context, made) is None
        assert context.inventory.accounts.token(token) is None
        site.ok("user", "unlock", "alice")
    finally:
        context.close()
        file.write_text(before)
