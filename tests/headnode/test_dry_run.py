"""A dry run refuses whatever the real run refuses, with the same words and the same exit code."""

import shutil
from dataclasses import replace
from pathlib import Path

import click
import pytest

from headnode import control
from headnode.cli import COMMANDS, cli
from headnode.files import sha256_of
from headnode.paths import Paths
from headnode.sealedfile import Unlocking, create_key_file
from headnode.workflows import backup, enroll, nodes, publishing
from headnode.workflows.context import Context
from tests.support import bmc, command_of, headnode, mac, refused_by_both, row_of

SHEET = "name,mac,profile\ngpu07,{mac},gpu\ngpu07,52:54:00:aa:00:77,gpu\n"


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory, _made_root: Path) -> Path:
    """A root with nodes, gpu02 of them locked, and beside it files that commands are given."""
    place = tmp_path_factory.mktemp("dry")
    made = Context(Paths(Path(shutil.copytree(_made_root, place / "root"))), "tester", "a test")
    enroll.enroll(made, [row_of(1), row_of(2), row_of(3)])
    nodes.set_fields(made, ["gpu02"], {"locked": "true"})
    publishing.publish_changes(made)
    create_key_file(place / "key")
    create_key_file(place / "other.key")
    backup.create(made, place / "good.hnb", Unlocking.key_file(place / "key"), lambda _: None)
    made.close()
    (place / "cut.hnb").write_bytes((place / "good.hnb").read_bytes()[:-1])
    (place / "empty").touch()
    (place / "twice.csv").write_text(SHEET.format(mac=mac(7)))
    return place


@pytest.fixture
def place(furnished: Path, tmp_path: Path) -> Path:
    # A short name: the path of a socket below it has to fit into 107 bytes.
    return Path(shutil.copytree(furnished, tmp_path / "p"))


NEW = ["enroll", "gpu09", "--mac", mac(9), "--profile", "gpu"]
# Words, with {} for the place that everything is in; what is refused, and why.
BAD: list[tuple[list[str], str]] = [
    (["enroll", "gpu09", "--profile", "gpu"], "mac is missing"),
    (["enroll", "gpu09", "--mac", mac(1), "--profile", "gpu"], "gpu01 has it already"),
    (["enroll", "gpu09", "--mac", mac(9), "--profile", "none"], "use one of the site's profiles"),
    ([*NEW, "--address", "10.99.0.1"], "use an address of the provision network"),
    ([*NEW, "--bmc", bmc(9), "--bmc-password-file", "{}/none"], "none' cannot be read"),
    ([*NEW, "--bmc", bmc(9), "--bmc-password-file", "{}/empty"], "is empty; put the password"),
    (["enroll", "--from", "{}/twice.csv"], "give each node its own"),
    (["enroll", "--from", "{}/nosuch.csv"], "cannot be read"),
    (["enroll", "--from", "{}/twice.csv", "--rack", "r1"], "cannot be used with --from"),
    (["set", "gpu09", "rack=r1"], "not enrolled"),
    (["set", "gpu01", "mac"], "is not key=value"),
    (["set", "gpu01", f"mac={mac(3)}"], "gpu03 has it already"),
    (["set", "gpu01", "address=10.20.1.3"], "gpu03 has it already"),
    (["set", "gpu01", f"bmc={bmc(3)}"], "gpu03 has it already"),
    (["set", "gpu01", f"bmc_mac={mac(3)}"], "gpu03 has it already"),
    (["set", "gpu[01,03]", f"mac={mac(9)}"], "belongs to one node"),
    (["set", "gpu01", "position=900"], "whole number from 1 to 100"),
    (["retire", "gpu09"], "not enrolled"),
    (["retire", "gpu[01-02]"], "gpu02 locked"),
    (["restore", "{}/good.hnb", "--key-file", "{}/key"], "there is a site here already"),
    (["restore", "{}/good.hnb", "--key-file", "{}/other.key", "--replace"], "key is wrong"),
    (["restore", "{}/cut.hnb", "--key-file", "{}/key", "--replace"], "was changed or cut short"),
    (["restore", "{}/nosuch.hnb", "--key-file", "{}/key", "--replace"], "cannot be read"),
    (["restore", "{}/good.hnb", "--key-file", "{}/nosuch", "--replace"], "nosuch' cannot be used"),
    (["inspect", "gpu01"], "there is no ramdisk"),
    (["inspect", "gpu02", "--no-power"], "gpu02 locked"),
    (["deploy", "gpu01"], "there is no image"),
    (["deploy", "gpu01", "--image", "gpu@7"], "there is no image 'gpu@7'"),
    (["deploy", "gpu02"], "gpu02 locked"),
    (["maintain", "gpu09"], "not enrolled"),
    (["resume", "gpu01"], "not in maintenance but enrolled"),
    (["power", "off", "gpu[01-02]"], "gpu02 is locked"),
    (["power", "cycle", "gpu09"], "not enrolled"),
    (["image", "gc", "--keep", "0"], "not in the range"),
    (["image", "remove", "gpu@1"], "there is no image 'gpu@1'"),
    (["user", "add", "Alice"], "name is 'Alice'"),
    (["user", "add", "alice"], "the directory is not running"),
    (["user", "add", "alice", "--password-file", "{}/empty"], "is empty"),
    (["user", "set", "alice"], "say what to change"),
    (["user", "set", "alice", "--email", "a@example.org"], "the directory is not running"),
    (["user", "lock", "alice"], "the directory is not running"),
    (["user", "unlock", "alice"], "the directory is not running"),
    (["user", "remove", "alice"], "the directory is not running"),
    (["user", "import", "{}/nosuch.csv"], "cannot be read"),
    (["user", "import", "{}/empty"], "is empty"),
    (["group", "add", "Vision!"], "name is 'Vision!'"),
    (["group", "add", "vision", "--description", "a\tb"], "description is 'a\\tb'"),
    (["group", "members", "vision", "--add", "alice"], "the directory is not running"),
    (["group", "remove", "admin"], "site.yaml gives rights to the group"),
]  # fmt: skip


def state(place: Path) -> object:
    at = Context(Paths(place / "root"), "tester", "a test")
    try:
        published = {path: (at.paths.published / path).read_bytes() for path in at.inventory.published_files()}
        return at.inventory.nodes(retired=True), at.inventory.events(), at.inventory.numbers(), published
    finally:
        at.close()


def both(place: Path, words: list[str]) -> tuple[int, list[str]]:
    before = state(place)
    done = refused_by_both(place / "root", *words)
    assert state(place) == before
    return done


@pytest.mark.parametrize(("words", "why"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_dry_run_refuses_what_the_real_run_does(furnished: Path, words: list[str], why: str) -> None:
    code, said = both(furnished, [word.format(furnished) for word in words])
    assert code in (1, 2)
    assert why in "\n".join(said)


def test_a_site_that_no_longer_fits_is_refused_by_both(place: Path) -> None:
    file = Paths(place / "root").site_file
    file.write_text(file.read_text().replace("  gpu:", "  gone:", 1))
    code, said = both(place, ["publish"])
    assert (code, "the profile 'gpu' is not in site.yaml" in said[0]) == (2, True)


@pytest.mark.program("dnsmasq")
def test_what_a_program_refuses_is_refused_by_both(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import templates

    original = templates.render
    monkeypatch.setattr(
        templates, "render", lambda name, /, **v: original(name, **v) + ("nonsense\n" if "conf" in name else "")
    )
    code, said = both(place, ["publish", "--full"])
    assert (code, "dnsmasq refuses" in said[0]) == (1, True)


@pytest.mark.parametrize("case", ["kind", "directory", "running"])
def test_a_backup_that_would_stop_half_way_is_refused_by_both(
    place: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before the first change, whatever the archive or this machine lacks."""
    at, key = Context(Paths(place / "root"), "tester", "a test"), Unlocking.key_file(place / "key")
    with backup.opened(at.paths, place / "good.hnb", key) as (contents, unpacked):
        files = {name: unpacked / name for name in contents.files}
        if case == "kind":
            config = unpacked / "config/site.yaml"
            config.write_text(config.read_text() + "\ndatabase: {url: 'postgresql://nobody@127.0.0.1:1/none'}\n")
        if case == "directory":
            config = unpacked / "config/site.yaml"
            external = "{mode: external, uri: 'ldaps://ldap.example.org', base_dn: 'dc=example,dc=org'}"
            text = config.read_text()
            assert "\ndirectory:" not in text
            config.write_text(f"{text}\ndirectory: {external}\n")
            (unpacked / "directory.ldif").write_text("")
            files["directory.ldif"] = unpacked / "directory.ldif"
        lying = replace(contents, files={name: sha256_of(path) for name, path in files.items()})
        backup.write(place / "bad.hnb", files, lying, key)
    at.close()
    if case == "running":
        monkeypatch.setattr(control, "running", lambda paths: True)
    why = {"kind": "holds a database of sqlite", "directory": "holds a directory, but", "running": "services run here"}
    code, said = both(place, ["restore", str(place / "bad.hnb"), "--key-file", str(place / "key"), "--replace"])
    assert code in (1, 2)
    assert why[case] in said[0]


def test_a_scan_has_no_dry_run(place: Path) -> None:
    done = headnode(place / "root", "enroll", "--bmc-scan", "10.21.0.0/24", "--rotate", "--dry-run")
    assert (done.code, "--dry-run cannot be used with --bmc-scan" in done.err) == (2, True)


def test_every_command_with_a_dry_run_is_in_the_table() -> None:
    """A new one has to be held to it too."""
    tried = {command_of(words).callback for words, _ in BAD}
    tried.add(command_of(["publish"]).callback)

    def untried(found: click.Command, name: str) -> list[str]:
        if isinstance(found, click.Group):
            context = click.Context(found)
            below = [(word, found.get_command(context, word)) for word in found.list_commands(context)]
            return [path for word, one in below if one for path in untried(one, f"{name} {word}")]
        dry = any(parameter.name == "dry_run" for parameter in found.params)
        return [name] if dry and found.callback not in tried else []

    assert len(COMMANDS) > 10
    assert untried(cli, "headnode") == []
