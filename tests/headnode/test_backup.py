"""Backup, wipe, restore: the same head node again; and everything that must not be restored."""

import multiprocessing
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headnode import vault
from headnode.errors import HeadnodeError, InvalidInput
from headnode.inventory import dumps
from headnode.paths import Paths
from headnode.sealedfile import Unlocking, create_key_file
from headnode.workflows import backup, enroll, hostkeys, publishing, restoring
from headnode.workflows.context import Context
from images.signing import public_key, signer
from tests.support import Postgres, headnode, row_of

WORDS = "correct horse battery staple"
KEY = Unlocking(b"K", bytes(range(32)))


def quiet(_: str) -> None: ...


def at(root: Path) -> Context:
    return Context(Paths(root), actor="tester", cause="a test")


def fill(context: Context) -> None:
    enroll.enroll(context, [row_of(number) for number in range(1, 4)])
    for number in range(1, 4):
        hostkeys.host_keys(context, f"gpu0{number}")
    signer(context.paths.config)
    with context.inventory.change("t", "t") as change:
        for node in change.nodes(["gpu01", "gpu02", "gpu03"]):
            assert node.bmc is not None
            sealed = vault.seal(f"hunter22 {node.name}", context.paths.secret_key)
            change.replace([replace(node, bmc=replace(node.bmc, sealed_password=sealed))])
        change.add_secret("ldap", vault.seal("directory password", context.paths.secret_key))


def everything(context: Context) -> dict[str, object]:
    """What has to be the same: nodes, events, keys and secrets, opened."""
    paths = context.paths
    nodes = context.inventory.nodes(retired=True)
    return {
        "nodes": [asdict(node) for node in nodes],
        "hosts": {node.name: hostkeys.host_keys(context, node.name) for node in nodes},
        "passwords": [vault.unseal(str(node.bmc and node.bmc.sealed_password), paths.secret_key) for node in nodes],
        "ldap": vault.unseal(str(context.inventory.secret("ldap")), paths.secret_key),
        "ca": ((paths.ca / "ca.crt").read_bytes(), (paths.ca / "ca.key").read_bytes()),
        "signing": public_key(paths.config),
        "site": context.site,
        "modes": {str(p.relative_to(paths.config)): p.stat().st_mode & 0o777 for p in paths.config.rglob("*")},
    }


@pytest.fixture
def filled(context: Context) -> Context:
    fill(context)
    return context


@pytest.fixture
def archive(filled: Context, tmp_path: Path) -> Path:
    backup.create(filled, tmp_path / "a.hnb", KEY, quiet)
    return tmp_path / "a.hnb"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Context]:
    (tmp_path / "other").mkdir()
    made = at(tmp_path / "other")
    yield made
    made.close()


def test_restored_on_an_empty_root_it_is_the_same_head_node(filled: Context, archive: Path, empty: Context) -> None:
    before = everything(filled)
    filled.close()
    shutil.rmtree(filled.paths.root)
    done = restoring.restore(empty, archive, KEY, replace=False, tell=quiet)
    assert done.cluster == "demo"
    assert everything(empty) == before
    kinds = [event.kind for event in empty.inventory.events()]
    assert kinds[-1] == "restore"
    assert not (empty.paths.state / "restore.unfinished").exists()
    assert list(backup.workplace(empty.paths).iterdir()) == []


def test_nothing_can_be_read_without_the_key(filled: Context, archive: Path) -> None:
    content = archive.read_bytes()
    assert archive.stat().st_mode & 0o777 == 0o600
    secrets = [filled.paths.secret_key.read_bytes().strip(), (filled.paths.ca / "ca.key").read_bytes()[40:90]]
    for words in (b"gpu01", b"hunter22", b"demo.lan", b"SQLite", b"PRIVATE", b"site.yaml", b"manifest", *secrets):
        assert words not in content
    with pytest.raises(HeadnodeError, match="key is wrong"):
        backup.verify(filled.paths, archive, Unlocking(b"K", bytes(32)))


def state_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def damage(archive: Path, how: str) -> None:
    content = bytearray(archive.read_bytes())
    if how == "cut":
        del content[-1]
    elif how == "half":
        del content[len(content) // 2 :]
    elif how == "empty":
        content.clear()
    elif how == "last bit":
        content[-1] ^= 1
    elif how == "middle":
        content[len(content) // 2] ^= 0x80
    else:
        content += b"more"
    archive.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["cut", "half", "empty", "last bit", "middle", "more"])
def test_a_damaged_archive_is_refused_before_anything_is_changed(
    archive: Path, filled: Context, empty: Context, how: str
) -> None:
    damage(archive, how)
    before = state_of(filled.paths.root)
    for context, replacing in ((empty, False), (filled, True)):
        with pytest.raises(HeadnodeError):
            restoring.restore(context, archive, KEY, replace=replacing, tell=quiet)
    assert state_of(empty.paths.root) == {}
    assert state_of(filled.paths.root) == before


def test_a_site_is_not_overwritten_unless_asked(archive: Path, filled: Context) -> None:
    before = everything(filled)
    with pytest.raises(InvalidInput, match="there is a site here already"):
        restoring.restore(filled, archive, KEY, replace=False, tell=quiet)
    enroll.enroll(filled, [row_of(9)])
    filled.close()
    again = at(filled.paths.root)
    restoring.restore(again, archive, KEY, replace=True, tell=quiet)
    assert everything(again) == before
    again.close()
    kept = sorted(path.name.partition(".before")[0] for path in filled.paths.root.rglob("*.before-restore-*"))
    assert kept == ["headnode", "inventory.db"]


def enrol_and_die(root: Path) -> None:
    """What it wrote is in SQLite's log alone: nobody closed the database."""
    enroll.enroll(at(root), [row_of(9)])
    os._exit(9)


def test_what_was_written_last_is_set_aside_too(archive: Path, filled: Context) -> None:
    filled.close()
    child = multiprocessing.get_context("spawn").Process(target=enrol_and_die, args=(filled.paths.root,))
    child.start()
    child.join()
    assert child.exitcode == 9
    assert filled.paths.database.with_name("inventory.db-wal").stat().st_size > 0
    again = at(filled.paths.root)
    restoring.restore(again, archive, KEY, replace=True, tell=quiet)
    assert again.inventory.node("gpu09") is None
    again.close()
    (kept,) = (
        path
        for path in filled.paths.state.glob("inventory.db.before-restore-*")
        if not path.name.endswith(restoring.BESIDE)
    )
    with closing(sqlite3.connect(kept)) as connection:
        assert connection.execute("SELECT count(*) FROM nodes WHERE name = 'gpu09'").fetchone() == (1,)


def test_a_dry_run_names_all_that_a_restore_would_set_aside(archive: Path, filled: Context, tmp_path: Path) -> None:
    publishing.publish_changes(filled)
    filled.close()
    key = tmp_path / "key"
    create_key_file(key)
    backup.create(at(filled.paths.root), tmp_path / "b.hnb", Unlocking.key_file(key), quiet)
    given = ("restore", str(tmp_path / "b.hnb"), "--key-file", str(key), "--replace")
    would = headnode(filled.paths.root, *given, "--dry-run").err
    did = headnode(filled.paths.root, *given, "--yes").err
    named = re.findall(r"Would set (\S+) aside", would)
    assert named == [str(filled.paths.config), str(filled.paths.database)]
    assert named == re.findall(r"set (\S+) aside as", did)
    assert f"Would remove from {filled.paths.published}" in would


def test_nothing_of_the_site_before_stays_published(archive: Path, filled: Context) -> None:
    enroll.enroll(filled, [row_of(9)])
    publishing.publish_changes(filled)
    stale = filled.paths.published / "dnsmasq/provision.d/gpu09"
    assert stale.exists()
    filled.close()
    again = at(filled.paths.root)
    restoring.restore(again, archive, KEY, replace=True, tell=quiet)
    assert not stale.exists()
    assert (stale.parent / "gpu01").exists()
    assert publishing.preview(again) == []
    again.close()


@pytest.mark.parametrize("step", ["load", "put_config"])
def test_an_interrupted_restore_is_run_again(
    archive: Path, filled: Context, empty: Context, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(filled)
    with monkeypatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(dumps if step == "load" else restoring, step, killed)
        with pytest.raises(KeyboardInterrupt):
            restoring.restore(empty, archive, KEY, replace=False, tell=quiet)
    again = at(empty.paths.root)
    restoring.restore(again, archive, KEY, replace=False, tell=quiet)
    assert everything(again) == before
    again.close()


def test_it_is_taken_while_others_write(filled: Context, tmp_path: Path) -> None:
    """What is copied is one moment: every event that is there has all its predecessors."""
    stop = threading.Event()

    def write() -> None:
        other = at(filled.paths.root)
        number = 0
        while not stop.is_set():
            with other.inventory.change("t", "t") as change:
                change.record("one", f"{number}")
                change.record("two", f"{number}")
            number += 1
        other.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            backup.create(filled, tmp_path / f"{number}.hnb", KEY, quiet)
    finally:
        stop.set()
        writer.join()
    for number in range(3):
        with backup.opened(filled.paths, tmp_path / f"{number}.hnb", KEY) as (_, place):
            copy = sqlite3.connect(place / backup.DATABASE)
            found = copy.execute(
                "SELECT kind, count(*) FROM events WHERE kind IN ('one','two') GROUP BY kind"
            ).fetchall()
            copy.close()
        assert len({count for _, count in found}) <= 1, found


def test_a_manifest_that_lies_is_refused(filled: Context, tmp_path: Path, empty: Context) -> None:
    """Whoever has the key can still make a broken archive; it must not get out of its place."""
    (tmp_path / "x").write_text("x")
    made = backup.Contents("demo", "now", "0", "sqlite", {"database": "0" * 64})
    for names in ({"../../evil": tmp_path / "x"}, {"/evil": tmp_path / "x"}, {"database": tmp_path / "x"}, {}):
        target = tmp_path / "lie.hnb"
        target.unlink(missing_ok=True)
        backup.write(target, names, made, KEY)
        with pytest.raises(HeadnodeError):
            restoring.restore(empty, target, KEY, replace=False, tell=quiet)
    assert not list(tmp_path.rglob("evil"))
    assert state_of(empty.paths.root) == {}
    backup.write(tmp_path / "new.hnb", {}, replace(made, files={}), KEY)
    with pytest.raises(HeadnodeError):
        backup.verify(empty.paths, tmp_path / "new.hnb", KEY)


def test_postgresql_comes_back_too(filled: Context, postgres: Postgres, tmp_path: Path) -> None:
    with postgres.database("hnbackup") as url:
        text = filled.paths.site_file.read_text() + f'\ndatabase: {{url: "{url}"}}\n'
        filled.close()
        filled.paths.site_file.write_text(text)
        context = at(filled.paths.root)
        fill(context)
        before = everything(context)
        archive = tmp_path / "pg.hnb"
        assert backup.create(context, archive, KEY, quiet).database == "postgresql"
        context.close()
        shutil.rmtree(filled.paths.root)
        (tmp_path / "other").mkdir()
        other = at(tmp_path / "other")
        with pytest.raises(InvalidInput, match="in its database"):
            restoring.restore(other, archive, KEY, replace=False, tell=quiet)
        postgres.execute("DROP DATABASE hnbackup WITH (FORCE)")
        postgres.execute("CREATE DATABASE hnbackup")
        restoring.restore(other, archive, KEY, replace=False, tell=quiet)
        assert everything(other) == before
        other.close()
        again = at(tmp_path / "other")
        restoring.restore(again, archive, KEY, replace=True, tell=quiet)
        assert everything(again) == before
        again.close()
        (kept,) = again.paths.state.glob("inventory.pgdump.before-restore-*")
        assert dumps.problems(dumps.POSTGRESQL, kept) == []


# As a person meets it.


def test_on_the_command_line(root: Path, tmp_path: Path) -> None:
    words, archive, other = tmp_path / "words", tmp_path / "c.hnb", tmp_path / "other"
    words.write_text(f"{WORDS}\n")
    other.mkdir()
    secret = ("--passphrase-file", str(words))
    made = headnode(root, "backup", str(archive), *secret)
    assert made.code == 0, made.err
    assert "Wrote" in made.err
    again = headnode(root, "backup", "create", str(archive), *secret)
    assert again.code == 2
    assert "exists already" in again.err
    assert "is whole: cluster demo" in headnode(root, "backup", "verify", str(archive), *secret).err
    dry = headnode(other, "restore", str(archive), *secret, "--dry-run")
    assert (dry.code, state_of(other)) == (0, {})
    assert headnode(other, "restore", str(archive), *secret).code == 2, "nobody could be asked"
    assert headnode(other, "restore", str(archive), *secret, "--yes").code == 0
    assert headnode(other, "nodes").code == 0
    assert headnode(other, "restore", str(archive), *secret, "--yes").code == 2


def test_the_key_on_the_command_line(root: Path, tmp_path: Path) -> None:
    key, archive = tmp_path / "key", tmp_path / "k.hnb"
    assert headnode(root, "backup", "key", str(key)).code == 0
    assert headnode(root, "backup", str(archive), "--key-file", str(key)).code == 0
    assert headnode(root, "backup", "verify", str(archive), "--key-file", str(key)).code == 0
    for wrong in ((), ("--passphrase-file", "/nonexistent"), ("--key-file", "/nonexistent")):
        done = headnode(root, "backup", "verify", str(archive), *wrong)
        assert done.code == 2, done.err
    assert headnode(root, "backup").code == 2
    assert headnode(root, "backup", "verify", str(tmp_path / "none"), "--key-file", str(key)).code == 2
