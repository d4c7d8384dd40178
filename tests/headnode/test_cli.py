"""The command line, as a person and as a script use it."""

import csv
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from headnode.cli import COMMANDS, cli, main
from headnode.cli.common import FORMATS
from headnode.cli.reference import commands
from headnode.paths import Paths
from headnode.sitetext import may_name_database
from tests.headnode.test_init import FLAGS
from tests.support import HEADNODE, bmc, csv_of, headnode, mac, process, tree

EVERY = list(commands(cli, ("headnode",)))
LEAVES = [(path, command) for path, command in EVERY if not isinstance(command, click.Group)]


@pytest.fixture
def small(root: Path) -> Path:
    """Three nodes, enrolled and published."""
    (root / "nodes.csv").write_text(csv_of([1, 2, 3]))
    assert headnode(root, "enroll", "--from", str(root / "nodes.csv"), "--yes").code == 0
    assert headnode(root, "set", "gpu0003", "groups=a100", "kernel_args=quiet splash", "--yes").code == 0
    return root


def test_what_the_manual_shows_is_what_happens(tmp_path: Path) -> None:
    """From an empty directory to a thousand nodes, as processes of their own."""
    root = tmp_path / "root"
    root.mkdir()
    file = tmp_path / "nodes.csv"
    file.write_text(csv_of(range(1, 1001)))
    assert process(root, *FLAGS).returncode == 0
    enrolled = process(root, "enroll", "--from", str(file), "--yes")
    assert enrolled.returncode == 0, enrolled.stderr
    listed = json.loads(process(root, "nodes", "-o", "json").stdout)
    assert isinstance(listed, list)
    assert len(listed) == 1000
    before = tree(root / "var/lib/headnode/published")
    again = process(root, "enroll", "--from", str(file), "--yes")
    assert again.returncode == 0
    assert b"Nothing to do" in again.stderr
    assert tree(root / "var/lib/headnode/published") == before
    evil = process(root, "enroll", "evil", "--mac", mac(1), "--yes")
    assert evil.returncode == 2
    assert b"gpu0001" in evil.stderr
    assert b"Traceback" not in enrolled.stderr + again.stderr + evil.stderr
    assert len(json.loads(process(root, "nodes", "-o", "json").stdout)) == 1000


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_line_of_a_command_is_its_own(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert COMMANDS[name][1] == (command.help or "").split("\n\n")[0].replace("\n", " ")
    assert f"  {name} " in headnode(Path("/nowhere"), "--help").out


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_has_help_with_examples(path: tuple[str, ...], command: click.Command) -> None:
    done = headnode(Path("/nowhere"), *path[1:], "--help")
    assert done.code == 0
    assert "Examples:" in done.out
    assert f"headnode {path[1]}" in done.out
    for option in command.params:
        assert isinstance(option, click.Argument) or getattr(option, "help", None), option.name


def test_help_does_not_import_what_it_does_not_need() -> None:
    code = "import sys\nfrom headnode.cli import cli\ntry: cli(['--help'])\nexcept SystemExit: print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sqlalchemy", "pydantic", "jinja2", "yaml", "alembic", "ClusterShell", "pyroute2"} & set(loaded)


def test_listing_nodes_does_not_wait_for_what_understands_the_site(root: Path) -> None:
    code = "import sys\nfrom headnode.cli import cli\ntry: cli(sys.argv[1:])\nexcept SystemExit: print(*sys.modules)"
    for words in (["nodes"], ["events"]):
        argv = [sys.executable, "-c", code, "--root", str(root), *words]
        loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
        assert "sqlalchemy" in loaded
        assert not {"pydantic", "yaml", "jinja2", "alembic", "pyroute2", "headnode.site"} & loaded


@pytest.mark.parametrize(
    ("text", "named"),
    [("domain: x\n", False), ("database: {url: x}\n", True), ("# database\n", True), ('"\\x64atabase": {}\n', True)],
)
def test_a_database_that_the_site_may_name_is_not_passed_over(text: str, named: bool) -> None:
    assert may_name_database(text.encode()) is named
    assert may_name_database(text.encode("utf-16"))


def test_a_database_of_its_own_is_asked_for_by_every_command(root: Path) -> None:
    file = Paths(root).site_file
    file.write_text(file.read_text() + "\ndatabase: {url: 'postgresql://nobody@127.0.0.1:1/none'}\n")
    for words in (["nodes"], ["events"]):
        done = headnode(root, *words)
        assert (done.code, "127.0.0.1:1/none cannot be used" in done.err) == (1, True), done.err


def test_nodes_are_listed_while_the_site_is_being_edited_and_nothing_is_changed(small: Path) -> None:
    Paths(small).site_file.write_text("cluster: [half\n")
    assert headnode(small, "nodes").code == 0
    assert headnode(small, "events").code == 0
    refused = headnode(small, "retire", "gpu0001", "--yes")
    assert (refused.code, "site.yaml" in refused.err) == (2, True)


# Exit codes: 0 done, 1 could not be done, 2 makes no sense.

CODES = [
    (0, ["nodes"]),
    (0, ["nodes", "gpu[0001-0003]"]),
    (0, ["show", "gpu0001"]),
    (0, ["set", "gpu0001", "rack=r9", "--yes"]),
    (0, ["set", "gpu0001", "rack=r0", "--dry-run"]),
    (0, ["events"]),
    (0, ["diff"]),
    (0, ["publish"]),
    (0, ["publish", "--full", "--dry-run"]),
    (0, ["render", "gpu0001"]),
    (0, ["render", "dnsmasq/provision.conf"]),
    (0, ["site", "check"]),
    (0, ["completion", "bash"]),
    (0, ["--version"]),
    (2, []),
    (2, ["nosuchcommand"]),
    (2, ["nodes", "--nosuchoption"]),
    (2, ["nodes", "gpu9"]),
    (2, ["nodes", "gpu["]),
    (2, ["nodes", "@nosuch"]),
    (2, ["nodes", "-o", "xml"]),
    (2, ["show", "nobody"]),
    (2, ["set", "gpu0001", "nonsense"]),
    (2, ["set", "gpu0001", "mac=x", "--yes"]),
    (2, ["set", "gpu0001", "rack=r9"]),
    (2, ["retire", "gpu0001"]),
    (2, ["retire", "nobody", "--yes"]),
    (2, ["events", "nobody"]),
    (2, ["render", "nobody"]),
    (2, ["render", "no/such/file"]),
    (2, ["enroll"]),
    (2, ["enroll", "gpu09", "--from", "x"]),
    (2, ["enroll", "--from", "/no/such/file"]),
    (2, ["enroll", "--from", "/"]),
    (2, ["enroll", "--from", "x", "--mac", "y"]),
    (2, ["enroll", "gpu09", "--mac", mac(9), "--profile", "gpu"]),
    (2, ["enroll", "x", "--mac", mac(9), "--bmc", bmc(9), "--profile", "gpu", "--yes", "--bmc-password-file", "/no"]),
    (2, ["init", "--yes"]),
    (2, ["completion", "csh"]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "words"), CODES, ids=[" ".join(words) or "nothing" for _, words in CODES])
def test_exit_codes_tell_what_happened(small: Path, code: int, words: list[str]) -> None:
    done = headnode(small, *words)
    assert done.code == code, done.err
    if code and words:
        assert any(line.startswith(("headnode: ", "Usage: ")) for line in done.err.splitlines())


def test_diff_is_one_when_there_is_something_to_publish(small: Path) -> None:
    headnode(small, "set", "gpu0002", f"mac={mac(99)}", "--yes", "--no-publish")
    done = headnode(small, "diff")
    assert done.code == 1
    assert f"-{mac(2)},10.20.1.2,gpu0002" in done.out
    assert f"+{mac(99)},10.20.1.2,gpu0002" in done.out


def test_what_cannot_be_done_is_one(tmp_path: Path, small: Path) -> None:
    nothing = headnode(tmp_path / "nothing", "nodes")
    assert nothing.code == 1
    assert "hint: run 'headnode init' first" in nothing.err
    (small / "var/lib/headnode/inventory.db").write_bytes(b"this is no database" * 100)
    for leftover in small.glob("var/lib/headnode/inventory.db-*"):
        leftover.unlink()
    damaged = headnode(small, "nodes")
    assert damaged.code == 1
    assert "file is not a database" in damaged.err


def test_a_database_url_that_cannot_be_used_is_one_sentence_without_its_password(small: Path) -> None:
    site = small / "etc/headnode/site.yaml"
    text = site.read_text()
    for url in (
        "postgresql://u:hunter2@/x?host=/nowhere",
        "postgresql://u:hunter2@[::1",
        "postgresql://u:hunter2@h:p/x",
    ):
        site.write_text(f"{text}\ndatabase: {{url: '{url}'}}\n")
        done = headnode(small, "nodes")
        assert done.code == 1, done.err
        assert "hunter2" not in done.err
        assert "database" in done.err


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/x", "postgresql//u:hun@ter2@h/x", "postgresql://u:hunter2@h/`"])
def test_a_wrong_url_is_refused_without_its_password(small: Path, url: str) -> None:
    site = small / "etc/headnode/site.yaml"
    site.write_text(site.read_text() + f"\ndatabase: {{url: '{url}'}}\npackages: {{proxy: 'http://u:hunter2@h\t'}}\n")
    done = headnode(small, "site", "check")
    assert done.code == 2
    assert "database.url" in done.err or "packages.proxy" in done.err
    assert "ter2" not in done.err


DRY = [
    ["enroll", "gpu09", "--mac", mac(9), "--profile", "gpu", "--dry-run"],
    ["enroll", "gpu09", "--mac", mac(9), "--profile", "gpu", "--dry-run", "-o", "json"],
    ["set", "gpu0001", "rack=r9", "--dry-run"],
    ["retire", "gpu0001", "--dry-run"],
    ["publish", "--dry-run"],
]


@pytest.mark.parametrize("words", DRY, ids=" ".join)
def test_a_dry_run_changes_nothing(small: Path, words: list[str]) -> None:
    before = tree(small)
    done = headnode(small, *words)
    assert done.code == 0, done.err
    assert tree(small) == before


def test_every_format_says_the_same(small: Path) -> None:
    outputs = {output: headnode(small, "nodes", "-o", output).out for output in FORMATS}
    documents = json.loads(outputs["json"])
    assert yaml.safe_load(outputs["yaml"]) == documents
    assert outputs["name"].split() == [document["name"] for document in documents] == ["gpu0001", "gpu0002", "gpu0003"]
    rows = list(csv.DictReader(io.StringIO(outputs["csv"])))
    assert [list(row) for row in rows] == [list(document) for document in documents]
    for row, document in zip(rows, documents, strict=True):
        for key in ("name", "state", "profile", "mac", "address", "bmc", "rack"):
            assert row[key] == document[key]
        assert json.loads(row["nics"]) == document["nics"]
    for output in ("table", "wide"):
        lines = outputs[output].splitlines()
        assert lines[0].split()[:3] == ["NAME", "STATE", "PROFILE"]
        assert len(lines) == 4
    assert "INTENT" in outputs["wide"]
    assert "INTENT" not in outputs["table"]


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("words", [["show", "gpu0003"], ["events"], ["events", "gpu0001"], ["show", "gpu[0001-0003]"]])
def test_every_listing_has_every_format(small: Path, words: list[str], output: str) -> None:
    done = headnode(small, *words, "-o", output)
    assert done.code == 0
    if output == "json":
        json.loads(done.out)
    if output == "yaml":
        yaml.safe_load(done.out)


def test_show_says_where_every_value_comes_from(small: Path) -> None:
    headnode(small, "set", "gpu0001", "console=ttyS1", "--yes")
    found = json.loads(headnode(small, "show", "gpu0001", "-o", "json").out)["effective"]
    sources = {key: value["source"] for key, value in found.items()}
    assert sources["console"] == "node"
    assert sources["nvidia_branch"] == "profile gpu"
    assert sources["method"] == "built in"
    assert sources["release"] == "site defaults"
    headnode(small, "set", "gpu0002", "profile=login", "--yes")
    login = json.loads(headnode(small, "show", "gpu0002", "-o", "json").out)["effective"]
    assert login["layout"] == {"value": "login", "source": "profile login"}
    assert login["start_watts"] == {"value": 600, "source": "parent profile cpu"}
    table = headnode(small, "show", "gpu0001").out
    assert "console" in table
    assert "ttyS1" in table


def test_click_can_drive_it_too(small: Path) -> None:
    done = CliRunner().invoke(cli, ["--root", str(small), "nodes", "-o", "name"])
    assert (done.exit_code, done.stdout) == (0, "gpu0001\ngpu0002\ngpu0003\n")


def test_what_people_read_stays_out_of_what_scripts_read(root: Path) -> None:
    done = headnode(root, "nodes")
    assert done.out == ""
    assert "No nodes yet" in done.err
    assert json.loads(headnode(root, "nodes", "-o", "json").out) == []
    assert headnode(root, "nodes", "-o", "csv").out == ""


def test_set_shows_the_difference_field_by_field(small: Path) -> None:
    done = headnode(small, "set", "gpu[0001-0002]", "rack=r7", "kernel_args=a b", "--yes")
    lines = [line.split(maxsplit=3) for line in done.out.splitlines()]
    assert lines[0] == ["NODE", "FIELD", "NOW", "THEN"]
    assert lines[1] == ["gpu0001", "rack", "r0", "r7"]
    assert lines[2] == ["gpu0001", "kernel_args", "-", "a b"]
    again = headnode(small, "set", "gpu[0001-0002]", "rack=r7", "--yes")
    assert (again.code, "Nothing to do" in again.err) == (0, True)


def test_retire_takes_a_node_and_its_files_away(small: Path) -> None:
    done = headnode(small, "retire", "gpu[0001-0002]", "--yes")
    assert done.code == 0
    assert "Retired gpu[0001-0002]." in done.err
    assert headnode(small, "nodes", "-o", "name").out == "gpu0003\n"
    assert not (small / "var/lib/headnode/published/dnsmasq/provision.d/gpu0001").exists()


def at_a_terminal(root: Path, answer: bytes, *words: str) -> "subprocess.CompletedProcess[bytes]":
    master, slave = pty.openpty()
    try:
        os.write(master, answer)
        env = {**os.environ, "HEADNODE_ROOT": str(root)}
        return subprocess.run([*HEADNODE, *words], stdin=slave, capture_output=True, env=env, timeout=60, check=False)
    finally:
        os.close(master)
        os.close(slave)


def test_a_person_is_asked_and_may_say_no(small: Path) -> None:
    before = tree(small)
    done = at_a_terminal(small, b"n\n", "retire", "gpu0001")
    assert done.returncode == 130
    assert b"Retire 1 node (gpu0001)?" in done.stderr
    assert tree(small) == before
    assert at_a_terminal(small, b"y\n", "retire", "gpu0001").returncode == 0
    assert headnode(small, "nodes", "-o", "name").out == "gpu0002\ngpu0003\n"


def test_a_person_is_asked_for_the_password_and_does_not_see_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda *_, **__: CANARY)
    words = ["enroll", "gpu01", "--mac", mac(1), "--bmc", bmc(1), "--profile", "gpu"]
    done = headnode(root, *words, typed=b"y\n")
    assert done.code == 0, done.err
    assert CANARY not in done.out + done.err
    assert sealed_passwords(root) == [CANARY]


def test_the_actor_and_the_command_are_in_the_history(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    headnode(small, "set", "gpu0001", "rack=r8", "--yes")
    event = json.loads(headnode(small, "events", "gpu0001", "-o", "json").out)[-1]
    assert event["actor"].startswith("alice (as ")
    assert event["cause"].endswith("set gpu0001 rack=r8 --yes")


def test_standard_input_is_a_file_too(root: Path) -> None:
    done = headnode(root, "enroll", "--from", "-", "--yes", stdin=csv_of([5]).encode())
    assert done.code == 0, done.err
    assert headnode(root, "nodes", "-o", "name").out == "gpu0005\n"
    assert headnode(root, "enroll", "--from", "-", "--yes", stdin=b"\xff\xfe").code == 2


def test_a_preview_shows_problems_first_and_not_everything(root: Path) -> None:
    file = root / "nodes.csv"
    file.write_text(csv_of(range(1, 101)).replace("gpu0100,", "gpu_100,"))
    done = headnode(root, "enroll", "--from", str(file), "--dry-run")
    assert done.code == 2
    assert done.out.splitlines()[1].startswith("gpu_100")
    assert "… and 60 more rows" in done.err
    assert "99 to enrol (gpu[0001-0099]), 1 with problems" in done.err


# Secrets.

CANARY = "c4n4ry-p4ssw0rd"


def test_a_bmc_password_is_nowhere_but_sealed(root: Path) -> None:
    secret = root.parent / "password"
    secret.write_text(f"{CANARY}\n")
    words = ["-v", "enroll", "gpu01", "--mac", mac(1), "--bmc", bmc(1), "--profile", "gpu", "--yes"]
    done = process(root, *words, "--bmc-password-file", str(secret))
    assert done.returncode == 0, done.stderr
    for words in (["show", "gpu01", "-o", "json"], ["events", "-o", "json"], ["render", "gpu01"], ["diff"]):
        shown = process(root, *words)
        assert CANARY.encode() not in shown.stdout + shown.stderr
    assert CANARY.encode() not in done.stdout + done.stderr
    for path in root.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
    assert sealed_passwords(root) == [CANARY]


def sealed_passwords(root: Path) -> list[str]:
    from headnode import vault
    from headnode.paths import Paths
    from headnode.workflows.context import Context

    at = Context(Paths(root), "tester", "a test")
    sealed = [node.bmc.sealed_password for node in at.inventory.nodes() if node.bmc]
    at.close()
    return [vault.unseal(one, at.paths.secret_key) for one in sealed if one]


def test_the_sites_password_file_is_the_default(root: Path) -> None:
    site = root / "etc/headnode/site.yaml"
    site.write_text(site.read_text().replace("# password_file: ", "password_file: "))
    (root / "etc/headnode/bmc.password").write_text(CANARY)
    headnode(root, "enroll", "gpu01", "--mac", mac(1), "--bmc", bmc(1), "--profile", "gpu", "--yes")
    assert sealed_passwords(root) == [CANARY]


def test_there_is_no_way_to_give_a_password_as_an_argument() -> None:
    for path, command in LEAVES:
        for option in command.params:
            told = str(option.name).endswith(("password_file", "password_stdin"))
            assert "password" not in (option.name or "") or told, path


def test_without_a_password_there_is_a_warning(root: Path) -> None:
    done = headnode(root, "enroll", "gpu01", "--mac", mac(1), "--bmc", bmc(1), "--profile", "gpu", "--yes")
    assert done.code == 0
    assert "warning: no BMC password is known" in done.err


# Completion.


def completions(root: Path, words: list[str], incomplete: str) -> list[str]:
    args = {"obj": None}
    found = ShellComplete(cli, args, "headnode", "_HEADNODE_COMPLETE").get_completions(
        ["--root", str(root), *words], incomplete
    )
    return [item.value for item in found]


def test_completion_knows_nodes_profiles_and_commands(small: Path) -> None:
    assert completions(small, ["show"], "gpu000") == ["gpu0001", "gpu0002", "gpu0003"]
    assert completions(small, ["nodes"], "gpu0001,gpu0002,g") == [f"gpu0001,gpu0002,gpu000{n}" for n in (1, 2, 3)]
    assert completions(small, ["enroll", "--profile"], "g") == ["gpu"]
    assert completions(small, [], "en") == ["enroll"]


def test_completion_never_prints_an_error(tmp_path: Path) -> None:
    assert completions(tmp_path / "nothing", ["show"], "g") == []
    assert completions(tmp_path / "nothing", ["enroll", "--profile"], "g") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(root: Path, shell: str) -> None:
    assert "_HEADNODE_COMPLETE" in headnode(root, "completion", shell).out


@pytest.mark.program("bash")
def test_bash_completes_a_node(small: Path) -> None:
    env = {"_HEADNODE_COMPLETE": "bash_complete", "COMP_WORDS": "headnode show gpu", "COMP_CWORD": "2"}
    code = "from headnode.cli import cli; cli.main(prog_name='headnode')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**os.environ, "HEADNODE_ROOT": str(small), **env},
        check=False,
    )  # fmt: skip
    assert b"plain,gpu0001" in done.stdout, done.stderr


# Odd ends.


def test_a_reader_that_has_seen_enough_is_no_error(small: Path) -> None:
    (small / "nodes.csv").write_text(csv_of(range(1, 400)))
    headnode(small, "enroll", "--from", str(small / "nodes.csv"), "--yes")
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -1; exit 0', "sh", *HEADNODE, "nodes", "-o", "json"],
        capture_output=True, env={**os.environ, "HEADNODE_ROOT": str(small)}, check=True,
    )  # fmt: skip
    assert done.stdout == b"[\n"
    assert done.stderr == b""


def test_a_file_name_that_is_no_text_is_one_sentence(root: Path) -> None:
    for content in (b"name\nGPU\n", b"nonsense\n"):
        path = os.fsencode(root) + b"/\xff\n.csv"
        Path(os.fsdecode(path)).write_bytes(content)
        done = process(root, b"enroll", b"--from", path)
        assert done.returncode == 2
        assert b"internal error" not in done.stderr
        assert b"Traceback" not in done.stderr


def test_an_unforeseen_failure_is_told_as_a_bug_and_never_as_a_traceback(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headnode.cli.cli.main", lambda **_: 1 / 0)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert "this is a bug in Headnode" in capsys.readouterr().err
    monkeypatch.setenv("HEADNODE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main()


def test_stopping_it_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headnode.cli.cli.main", stopped)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
    assert "stopped" in capsys.readouterr().err


@pytest.fixture
def _logging() -> Iterator[None]:
    yield
    import structlog

    structlog.reset_defaults()


@pytest.mark.usefixtures("_logging")
@pytest.mark.program("dnsmasq")
def test_verbose_logs_every_program_as_json_when_nobody_is_watching(root: Path) -> None:
    done = headnode(root, "-v", "publish")
    assert done.code == 0
    logged = [json.loads(line)["command"] for line in done.err.splitlines() if line.startswith("{")]
    assert len(logged) == 6  # dnsmasq for DHCP and for names, and the others
    for words in ("dnsmasq --test", "nginx -t", "slaptest -u", "chronyd -p", "acngtool cfgdump"):
        assert any(words in command for command in logged)


@pytest.mark.parametrize("command", ["nodes", "show", "events", "render"])
def test_every_command_takes_a_node_set(small: Path, command: str) -> None:
    whole = headnode(small, command, "gpu[0001-0002]")
    assert whole.code == 0
    assert "gpu0001" in whole.out
    assert "gpu0002" in whole.out
    assert "gpu0003" not in whole.out
    wrong = headnode(small, command, "gpu[0001-9999]")
    assert (wrong.code, wrong.out) == (2, "")
    assert "gpu[0004-9999] are not enrolled" in wrong.err


def test_a_retired_node_has_a_history_and_no_files(small: Path) -> None:
    assert headnode(small, "retire", "gpu0001", "--yes").code == 0
    assert "enrolled as gpu" in headnode(small, "events", "gpu0001").out
    assert headnode(small, "render", "gpu0001").code == 2


def test_names_of_events_are_those_of_nodes(small: Path) -> None:
    assert headnode(small, "events", "-o", "name").out == "gpu0001\ngpu0002\ngpu0003\n"


def test_one_is_not_many(root: Path) -> None:
    words = ["enroll", "gpu01", "--mac", mac(1), "--profile", "gpu", "--yes"]
    assert "Enrolled 1 node.\n" in headnode(root, *words).err
    assert json.loads(headnode(root, "events", "-o", "json").out)[-1]["message"].endswith("for 1 node")
