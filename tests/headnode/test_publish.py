"""Publishing is a transaction: all of it is live, or nothing has changed."""

import errno
import json
import multiprocessing
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection

import templates
from headnode import publish as publishing_module
from headnode.errors import HeadnodeError, PublishFailed
from headnode.model import File
from headnode.paths import Paths
from headnode.publish import Workplace, begin, confined, differing, publish, publishers_lock, recover, stage, swap
from headnode.workflows import enroll, nodes, publishing
from headnode.workflows.context import Context
from tests.support import headnode, problems_are_lines, row_of, tree

OLD = {"a": File(b"old a"), "d/b": File(b"old b"), "gone": File(b"old gone")}
NEW = {"a": File(b"new a"), "d/b": File(b"new b", 0o600), "d/c": File(b"new c")}


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A live tree with the old files in it."""
    made = Workplace(tmp_path / "published")
    publish(made, OLD, [], no_warnings, tell_nobody)
    return made


def no_warnings(staged: Path) -> list[str]:
    return []


def tell_nobody(touched: set[str]) -> None:
    pass


def live(place: Workplace) -> dict[str, bytes]:
    return {path: content for path, (content, _, _, _) in tree(place.live).items()}


def contents(files: dict[str, File]) -> dict[str, bytes]:
    return {path: file.content for path, file in files.items()}


def refuse(what: object) -> list[str]:
    raise PublishFailed("the checker says no")


def test_new_files_go_live_with_their_modes_and_old_ones_disappear(place: Workplace) -> None:
    assert publish(place, NEW, ["gone"], lambda staged: ["careful"], tell_nobody) == ["careful"]
    assert live(place) == contents(NEW)
    assert (place.live / "d/b").stat().st_mode & 0o777 == 0o600
    assert not place.transaction.exists()


def test_the_checker_sees_the_new_files_before_they_are_live(place: Workplace) -> None:
    def check(staged: Path) -> list[str]:
        assert (staged / "a").read_bytes() == b"new a"
        assert (place.live / "a").read_bytes() == b"old a"
        return []

    publish(place, NEW, ["gone"], check, tell_nobody)


def test_a_refusal_leaves_everything_as_it_was(place: Workplace) -> None:
    before = tree(place.live)
    with pytest.raises(PublishFailed, match="the checker says no"):
        publish(place, NEW, ["gone"], refuse, tell_nobody)
    assert tree(place.live) == before
    assert not place.transaction.exists()


def test_a_failed_reload_is_rolled_back_and_the_programs_are_told_again(place: Workplace) -> None:
    before, seen = tree(place.live), []

    def reload(touched: set[str]) -> None:
        seen.append((touched, live(place)))
        if len(seen) == 1:
            raise HeadnodeError("dnsmasq did not come back", hint="look at its log")

    with pytest.raises(
        PublishFailed, match="rolled back, because reloading failed: dnsmasq did not come back"
    ) as caught:
        publish(place, NEW, ["gone"], no_warnings, reload)
    assert caught.value.hint == "look at its log"
    assert tree(place.live) == before
    touched = {"a", "d/b", "d/c", "gone"}
    assert seen == [(touched, contents(NEW)), (touched, contents(OLD))]
    assert not place.transaction.exists()


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "the disk")


class Failing:
    """A function that fails after a number of calls; as on a full disk, unless said otherwise."""

    def __init__(self, function: Callable[..., object], after: int, error: BaseException = FULL) -> None:
        self.function, self.left, self.error = function, after, error

    def __call__(self, *args: object, **more: object) -> object:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.function(*args, **more)


@pytest.mark.parametrize("after", range(4))
def test_a_disk_that_is_full_while_staging_changes_nothing(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    before = tree(place.live)
    monkeypatch.setattr(os, "fsync", Failing(os.fsync, after))
    with pytest.raises(PublishFailed, match=r"No space left on device.*what was live before still is"):
        publish(place, NEW, ["gone"], no_warnings, tell_nobody)
    assert tree(place.live) == before
    assert not place.transaction.exists()


@pytest.mark.parametrize("after", range(3))
def test_a_swap_that_fails_half_way_is_taken_back(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    before = tree(place.live)
    monkeypatch.setattr(publishing_module, "keep", Failing(publishing_module.keep, after))
    with pytest.raises(PublishFailed, match="rolled back, because the disk: No space left"):
        publish(place, NEW, ["gone"], no_warnings, tell_nobody)
    assert tree(place.live) == before


@pytest.mark.root
def test_a_disk_that_is_really_full_changes_nothing(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", mount], check=True)
    try:
        place = Workplace(mount / "published")
        publish(place, OLD, [], no_warnings, tell_nobody)
        before = tree(place.live)
        with pytest.raises(PublishFailed, match="No space left on device"):
            publish(place, {**NEW, "big": File(b"x" * 1_000_000)}, ["gone"], no_warnings, tell_nobody)
        assert tree(place.live) == before
        publish(place, NEW, ["gone"], no_warnings, tell_nobody)
        assert live(place) == contents(NEW)
    finally:
        subprocess.run(["umount", mount], check=True)


def interrupted(place: Workplace, renames: int) -> None:
    """A publisher that died after so many renames."""
    stage(place, NEW)
    begin(place, list(NEW), ["gone"])
    swap(place, sorted(NEW)[:renames], [])


@pytest.mark.parametrize("renames", range(4))
def test_the_next_publisher_finishes_what_a_crash_interrupted_and_tells_everybody(
    place: Workplace, renames: int
) -> None:
    interrupted(place, renames)
    told: list[set[str]] = []
    assert recover(place, told.append) is True
    assert live(place) == contents(NEW)
    assert told == [{"a", "d/b", "d/c", "gone"}]
    assert not place.transaction.exists()
    assert recover(place, told.append) is False


@pytest.mark.parametrize("renames", range(4))
def test_what_a_crash_interrupted_is_taken_back_when_the_reload_fails(place: Workplace, renames: int) -> None:
    before = tree(place.live)
    interrupted(place, renames)
    with pytest.raises(PublishFailed, match="rolled back"):
        recover(place, refuse)  # type: ignore[arg-type]
    assert tree(place.live) == before


def test_a_crash_before_the_journal_is_forgotten(place: Workplace) -> None:
    before = tree(place.live)
    stage(place, NEW)
    assert recover(place, tell_nobody) is False
    assert tree(place.live) == before
    assert not place.transaction.exists()


@pytest.mark.parametrize("journal", ["", "{", "null", "[]", '{"write": []}', '{"write": 5, "remove": []}'])
def test_a_damaged_journal_means_that_everything_has_to_be_compared(place: Workplace, journal: str) -> None:
    stage(place, NEW)
    place.journal.write_text(journal)
    assert recover(place, tell_nobody) is True
    assert not place.transaction.exists()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", "..", "a\0b", "d/.."])
def test_a_path_that_leads_out_of_the_tree_is_refused(place: Workplace, path: str) -> None:
    with pytest.raises(PublishFailed, match="leads outside"):
        confined(place.live, path)
    with pytest.raises(PublishFailed, match="leads outside"):
        publish(place, {path: File(b"evil")}, [], no_warnings, tell_nobody)
    with pytest.raises(PublishFailed, match="leads outside"):
        differing(place.live, {path: File(b"evil")})
    assert live(place) == contents(OLD)


def test_a_journal_cannot_lead_out_of_the_tree(place: Workplace) -> None:
    stage(place, NEW)
    place.journal.write_text(json.dumps({"write": [], "remove": ["../../precious"]}))
    with pytest.raises(PublishFailed, match="leads outside"):
        recover(place, tell_nobody)


def test_only_what_differs_in_content_or_mode_is_written(place: Workplace) -> None:
    same = {"a": File(b"old a"), "d/b": File(b"old b", 0o600), "x": File(b"")}
    assert set(differing(place.live, same)) == {"d/b", "x"}


def test_a_directory_in_the_way_of_a_file_is_one_sentence(place: Workplace) -> None:
    before = tree(place.live)
    wanted = {"a": File(b"new a"), "d": File(b"no longer a directory")}
    assert set(differing(place.live, wanted)) == {"a", "d"}
    with pytest.raises(PublishFailed, match=r"rolled back, because .*/d: "):
        publish(place, wanted, [], no_warnings, tell_nobody)
    assert tree(place.live) == before


def test_a_file_in_the_way_of_a_directory_is_one_sentence(place: Workplace) -> None:
    before = tree(place.live)
    with pytest.raises(PublishFailed, match="rolled back"):
        publish(place, {"a/b": File(b"below a file")}, [], no_warnings, tell_nobody)
    assert tree(place.live) == before


# What is in the way: a file where a directory belongs, and a directory where a file belongs.

TURNED = {"a/b": File(b"below what was a file"), "d": File(b"was a directory")}


def everything(place: Workplace) -> dict[str, bytes]:
    assert not any(path.is_dir() and not any(path.iterdir()) for path in place.live.rglob("*")), "an empty directory"
    return live(place)


def test_what_goes_makes_room_for_what_comes(place: Workplace) -> None:
    publish(place, TURNED, ["a", "d/b", "gone"], no_warnings, tell_nobody)
    assert everything(place) == contents(TURNED)
    with pytest.raises(PublishFailed, match="rolled back, because"):
        publish(place, OLD, ["a/b"], no_warnings, tell_nobody)  # nobody said that d, a file, may go
    assert everything(place) == contents(TURNED)
    publish(place, OLD, ["a/b", "d"], no_warnings, tell_nobody)
    assert everything(place) == contents(OLD)


def test_an_empty_directory_is_not_in_the_way(place: Workplace) -> None:
    (place.live / "x/y/z").mkdir(parents=True)
    publish(place, {"x": File(b"x")}, [], no_warnings, tell_nobody)
    assert live(place)["x"] == b"x"


def test_what_made_room_comes_back_when_the_reload_fails(place: Workplace) -> None:
    with pytest.raises(PublishFailed, match="rolled back"):
        publish(place, TURNED, ["a", "d/b"], no_warnings, refuse)  # type: ignore[arg-type]
    assert everything(place) == contents(OLD)


@pytest.mark.parametrize("what", ["keep", "make_room"])
@pytest.mark.parametrize("after", range(5))
def test_a_kill_while_room_is_made_is_finished_by_the_next_publisher(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, what: str, after: int
) -> None:
    killed = False
    with monkeypatch.context() as patch:
        patch.setattr(publishing_module, what, Failing(getattr(publishing_module, what), after, KeyboardInterrupt()))
        try:
            publish(place, TURNED, ["a", "d/b", "gone"], no_warnings, tell_nobody)
        except KeyboardInterrupt:
            killed = True
    assert killed == (after < (5 if what == "keep" else 2))
    assert recover(place, tell_nobody) == killed
    assert everything(place) == contents(TURNED)


@pytest.mark.parametrize("after", range(4))
def test_a_full_disk_while_room_is_made_takes_everything_back(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(publishing_module, "keep", Failing(publishing_module.keep, after))
        with pytest.raises(PublishFailed, match="rolled back"):
            publish(place, TURNED, ["a", "d/b", "gone"], no_warnings, tell_nobody)
    assert live(place) == contents(OLD)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(PublishFailed, match="cannot publish to"),
        publishers_lock(Workplace(tmp_path / "file/published")),
    ):
        pass


def test_many_files_are_published_too(tmp_path: Path) -> None:
    many = {f"d/{number}": File(str(number).encode()) for number in range(200)}
    place = Workplace(tmp_path / "published")
    publish(place, many, [], no_warnings, tell_nobody)
    assert live(place) == contents(many)


def append_slowly(place: Workplace, number: int) -> None:
    with publishers_lock(place):
        log = place.live / "log"
        before = log.read_text() if log.exists() else ""
        publish(place, {"log": File(f"{before}{number}\n".encode())}, [], no_warnings, tell_nobody)


def test_publishers_queue(tmp_path: Path) -> None:
    """Each adds a line to what it finds: had two been at work at once, a line would be missing."""
    place = Workplace(tmp_path / "published")
    processes = multiprocessing.get_context("forkserver")
    started = [processes.Process(target=append_slowly, args=(place, number)) for number in range(6)]
    for one in started:
        one.start()
    for one in started:
        one.join(60)
    assert [one.exitcode for one in started] == [0] * 6
    assert sorted((place.live / "log").read_text().split()) == [str(number) for number in range(6)]


# The workflow: which nodes are rendered, what is remembered, what is removed.


@pytest.fixture
def published(context: Context) -> Context:
    """Three nodes, enrolled and published."""
    enroll.enroll(context, [row_of(1), row_of(2), row_of(3)])
    publishing.publish_changes(context)
    return context


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the templates rendered from here on."""
    names: list[str] = []
    original = templates.render

    def counted(name: str, /, **values: object) -> str:
        names.append(name)
        return original(name, **values)

    monkeypatch.setattr(templates, "render", counted)
    return names


SITE_FILES = (
    "dnsmasq/names.conf", "dnsmasq/provision.conf", "http/boot/unknown.ipxe", "nginx/nginx.conf", "ssh/known_hosts",
    "chrony/chrony.conf", "apt-cacher-ng/acng.conf", "slapd/slapd.conf", "slapd/headnode.schema",
)  # fmt: skip
SITE_TEMPLATES = [
    "boot/unknown.ipxe.j2", "dnsmasq/provision.conf.j2", "dnsmasq/names.conf.j2", "nginx/nginx.conf.j2",
    "overlay/known_hosts.j2", "slapd/headnode.schema.j2", "slapd/slapd.conf.j2", "chrony/chrony.conf.j2",
    "apt-cacher-ng/acng.conf.j2",
]  # fmt: skip


def again(context: Context) -> Context:
    return Context(context.paths, context.actor, context.cause)


def test_a_node_is_published_as_three_files(published: Context) -> None:
    files = set(tree(published.paths.published))
    assert files == {
        *SITE_FILES,
        *(f"http/boot/10.20.1.{n}.ipxe" for n in (1, 2, 3)),
        *(f"dnsmasq/{kind}/gpu0{n}" for kind in ("provision.d", "names.d") for n in (1, 2, 3)),
    }
    assert set(published.inventory.published_files()) == files


def test_only_the_sites_own_files_are_rendered_when_nothing_has_changed(published: Context, renders: list[str]) -> None:
    before, revision = tree(published.paths.published), published.inventory.changed_since(0)[0]
    assert publishing.publish_changes(published) == publishing.Outcome()
    assert renders == SITE_TEMPLATES
    assert tree(published.paths.published) == before
    assert published.inventory.changed_since(0)[0] == revision


def test_one_changed_node_touches_only_its_own_files(published: Context, renders: list[str]) -> None:
    before = tree(published.paths.published)
    nodes.set_fields(published, ["gpu02"], {"mac": "52:54:00:ff:00:02"})
    outcome = publishing.publish_changes(published)
    after = tree(published.paths.published)
    assert outcome.written == ("dnsmasq/provision.d/gpu02",)
    assert outcome.nodes == 1
    own = ["boot/disk.ipxe.j2", "dnsmasq/host.j2", "dnsmasq/names.j2"]
    assert sorted(renders) == sorted([*SITE_TEMPLATES, *own])
    assert {path for path in after if after[path] != before[path]} == {"dnsmasq/provision.d/gpu02"}
    assert b"52:54:00:ff:00:02" in after["dnsmasq/provision.d/gpu02"][0]


def work_for(context: Context, name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What publishing a change of one node costs: counted, because times depend on the day."""
    nodes.set_fields(context, [name], {"mac": f"52:54:00:ff:00:{name[-2:]}"})
    done: Counter[str] = Counter()
    before = tree(context.paths.published)
    with monkeypatch.context() as patch:
        for module, function in (
            (templates, "render"),
            (publishing_module, "same"),
            (publishing_module, "confined"),
            (Connection, "execute"),
        ):
            patch.setattr(module, function, counted(getattr(module, function), function, done))
        outcome = publishing.publish_changes(context)
    after = tree(context.paths.published)
    assert outcome.written == (f"dnsmasq/provision.d/{name}",)
    assert [path for path in after if after[path] != before[path]] == [f"dnsmasq/provision.d/{name}"]
    return dict(done)


def counted(function: Callable[..., object], name: str, done: "Counter[str]") -> Callable[..., object]:
    def call(*args: object, **more: object) -> object:
        done[name] += 1
        return function(*args, **more)

    return call


def test_the_work_for_one_node_is_the_same_among_few_and_many(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    enroll.enroll(context, [row_of(number) for number in range(1, 11)])
    publishing.publish_changes(context)
    among_few = work_for(context, "gpu07", monkeypatch)
    assert (among_few["render"], among_few["same"]) == (12, 12)
    enroll.enroll(context, [row_of(number) for number in range(11, 300)])
    publishing.publish_changes(context)
    assert work_for(context, "gpu08", monkeypatch) == among_few


def test_a_changed_site_is_compared_in_full_and_only_what_differs_is_written(published: Context) -> None:
    file = published.paths.site_file
    file.write_text(file.read_text().replace("dns: []", "dns: [9.9.9.9]"))
    outcome = publishing.publish_changes(again(published))
    assert outcome.written == ("dnsmasq/names.conf",)


def test_what_somebody_changed_by_hand_is_put_right_by_a_full_publish(published: Context) -> None:
    host = published.paths.published / "dnsmasq/provision.d/gpu01"
    host.write_text("rubbish")
    (published.paths.published / "dnsmasq/names.d/gpu03").unlink()
    assert publishing.publish_changes(published).written == ()
    outcome = publishing.publish_changes(published, full=True)
    assert set(outcome.written) == {"dnsmasq/provision.d/gpu01", "dnsmasq/names.d/gpu03"}
    assert "gpu01" in host.read_text()


def test_the_files_of_a_retired_node_disappear(published: Context) -> None:
    nodes.retire(published, ["gpu02"])
    outcome = publishing.publish_changes(published)
    gone = {"dnsmasq/provision.d/gpu02", "dnsmasq/names.d/gpu02", "http/boot/10.20.1.2.ipxe"}
    assert set(outcome.removed) == gone
    assert not gone & set(tree(published.paths.published))
    assert not gone & set(published.inventory.published_files())


def test_a_node_that_moves_leaves_nothing_behind(published: Context) -> None:
    nodes.set_fields(published, ["gpu01"], {"address": "10.20.5.5"})
    outcome = publishing.publish_changes(published)
    assert outcome.removed == ("http/boot/10.20.1.1.ipxe",)
    assert "http/boot/10.20.5.5.ipxe" in outcome.written


def test_an_address_that_goes_to_another_node_keeps_its_file(published: Context) -> None:
    nodes.retire(published, ["gpu01"])
    enroll.enroll(published, [row_of(9)])
    publishing.publish_changes(published)
    script = published.paths.published / "http/boot/10.20.1.1.ipxe"
    assert "gpu09" in script.read_text()
    nodes.retire(published, ["gpu09"])
    publishing.publish_changes(published)
    assert not script.exists()


# What nobody published: entries of a database that was lost or replaced.

STRANGERS = {"dnsmasq/provision.d/old01", "http/boot/10.20.9.9.ipxe", "left/over/file", "nowhere"}


@pytest.fixture
def haunted(published: Context, tmp_path: Path) -> Context:
    """A published site with files in its tree that its database never knew."""
    tree_of_it = published.paths.published
    (tree_of_it / "dnsmasq/provision.d/old01").write_text("52:54:00:ee:00:01,10.20.9.9,old01\n")
    (tree_of_it / "http/boot/10.20.9.9.ipxe").write_text("#!ipxe\n")
    (tree_of_it / "left/over").mkdir(parents=True)
    (tree_of_it / "left/over/file").touch()
    (tree_of_it / "nowhere").symlink_to(tmp_path / "nothing")
    return published


def test_a_full_publish_removes_what_nobody_published_and_no_other_does(haunted: Context) -> None:
    before = tree(haunted.paths.published)
    assert publishing.publish_changes(haunted) == publishing.Outcome()
    assert tree(haunted.paths.published) == before
    told: list[set[str]] = []
    outcome = publishing.publish_changes(haunted, full=True, reload=told.append)
    assert (set(outcome.removed), outcome.written) == (STRANGERS, ())
    assert told == [STRANGERS]
    after = tree(haunted.paths.published)
    assert after == {path: before[path] for path in before if path not in STRANGERS}
    assert not (haunted.paths.published / "left").exists()
    assert not os.path.lexists(haunted.paths.published / "nowhere")
    assert publishing.publish_changes(haunted, full=True).removed == ()


def test_a_lost_database_leaves_its_nodes_served_until_somebody_asks_for_a_full_publish(published: Context) -> None:
    published.close()
    for file in published.paths.database.parent.glob("inventory.db*"):
        file.unlink()
    fresh = again(published)
    enroll.enroll(fresh, [row_of(2)])
    before = set(tree(fresh.paths.published))
    assert publishing.publish_changes(fresh).removed == ()
    gone = before - {*SITE_FILES, "dnsmasq/provision.d/gpu02", "dnsmasq/names.d/gpu02", "http/boot/10.20.1.1.ipxe"}
    assert {change.path for change in publishing.preview(fresh) if change.stranger} == gone
    assert set(publishing.publish_changes(fresh, full=True).removed) == gone
    assert set(tree(fresh.paths.published)) == set(fresh.inventory.published_files())
    fresh.close()


def test_a_preview_names_what_nobody_published_and_follows_no_link(haunted: Context, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter22")
    (haunted.paths.published / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(haunted.paths.published / "pipe")
    before = tree(haunted.paths.published)
    found = {change.path: change for change in publishing.preview(haunted)}
    assert set(found) == {*STRANGERS, "link", "pipe"}
    assert all(change.stranger and change.then is None for change in found.values())
    assert b"hunter22" not in b"".join(change.now or b"" for change in found.values())
    assert tree(haunted.paths.published) == before
    assert publishing.rehearse(haunted, full=False) == ([], [])
    changes, _ = publishing.rehearse(haunted, full=True)
    assert {change.path for change in changes} == set(found)
    publishing.publish_changes(haunted, full=True)
    assert (tmp_path / "secret").read_text() == "hunter22"


def test_what_a_link_leads_to_is_never_touched(published: Context, tmp_path: Path) -> None:
    """A directory may have been put elsewhere: what is in it is not ours to clear away, linked or not."""
    live, elsewhere = published.paths.published, tmp_path / "elsewhere"
    (live / "http/boot").rename(elsewhere)
    (live / "http/boot").symlink_to(elsewhere)
    (elsewhere / "precious").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("theirs")
    (live / "other").symlink_to(tmp_path / "other")
    assert publishing.publish_changes(published, full=True).removed == ("other",)
    assert (elsewhere / "precious").read_text() == "mine"
    assert (tmp_path / "other/file").read_text() == "theirs"
    assert (live / "http/boot").is_symlink()


@pytest.mark.parametrize("after", range(6))
def test_a_kill_while_strangers_are_removed_is_finished_by_the_next_publish(
    haunted: Context, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(publishing_module, "keep", Failing(publishing_module.keep, after, KeyboardInterrupt()))
        patch.setattr(publishing, "prune", Failing(publishing_module.prune, 0, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            publishing.publish_changes(haunted, full=True)
    left = STRANGERS & {str(path) for path in publishing_module.everything_in(haunted.paths.published)}
    assert len(left) == max(len(STRANGERS) - after, 0)
    next_one = again(haunted)
    publishing.publish_changes(next_one)
    assert not STRANGERS & {*publishing_module.everything_in(next_one.paths.published)}
    assert set(tree(next_one.paths.published)) == set(next_one.inventory.published_files())
    next_one.close()


def test_strangers_come_back_when_the_reload_fails(haunted: Context) -> None:
    before = {*publishing_module.everything_in(haunted.paths.published)}
    with pytest.raises(PublishFailed, match="rolled back"):
        publishing.publish_changes(haunted, full=True, reload=refuse)  # type: ignore[arg-type]
    assert {*publishing_module.everything_in(haunted.paths.published)} == before


def spoil(context: Context, how: str) -> None:
    """By hand, or by another program."""
    live = context.paths.published
    script, folder = live / "http/boot/10.20.1.1.ipxe", live / "dnsmasq/names.d"
    if how == "directory":
        script.unlink()
        (script / "deep").mkdir(parents=True)
        (script / "deep/file").write_text("x")
    else:
        shutil.rmtree(folder)
        folder.symlink_to("nowhere") if how == "link" else folder.write_text("x")


@pytest.mark.parametrize("how", ["directory", "file", "link"])
def test_a_full_publish_puts_right_what_is_in_the_way_and_any_other_refuses(published: Context, how: str) -> None:
    before = {path: content for path, (content, *_) in tree(published.paths.published).items()}
    root = published.paths.root
    spoil(published, how)
    with published.inventory.change("test", "test") as change:
        change.set_fact("published_inputs", "another site")
    for given in (["publish", "--dry-run"], ["publish"]):
        refused = headnode(root, *given)
        assert (refused.code, "belong" in refused.err) == (1, True), refused.err
        assert ("10.20.1.1.ipxe is a directory" if how == "directory" else "names.d is no directory") in refused.err
        assert "headnode publish --full" in refused.err
    dry = headnode(root, "publish", "--full", "--dry-run")
    assert dry.code == 0
    done = headnode(root, "publish", "--full")
    assert done.code == 0, done.err
    assert {path: content for path, (content, *_) in tree(published.paths.published).items()} == before
    assert headnode(root, "diff").code == 0


def test_a_diff_shows_nothing_that_a_terminal_would_obey(published: Context) -> None:
    live = published.paths.published
    (live / "escape").write_bytes(b"one\ttab \x1b[2J\x07\n\xff\n")
    (live / "program").write_bytes(b"\x7fELF\0\x1b[2J")
    with (live / "huge").open("wb") as file:
        file.truncate(50_000_000)
    (live / "long").write_bytes(b"x" * 1_000_001)
    found = headnode(published.paths.root, "diff")
    assert found.code == 1
    assert "-one\ttab " in found.out
    assert "".join(found.out.split()).isprintable()
    for size in (9, 50_000_000, 1_000_001):
        assert f"-binary, {size} bytes" in found.out


def test_a_name_that_no_database_could_hold_is_removed_too(published: Context) -> None:
    odd = os.fsdecode(b"dnsmasq/provision.d/\xff\x1b[2J\n")
    (published.paths.published / odd).write_text("x")
    shown = headnode(published.paths.root, "diff")
    assert shown.code == 1
    problems_are_lines(shown.out.strip())
    assert "only 'headnode publish --full' removes" in shown.err
    assert publishing.publish_changes(published, full=True).removed == (odd,)
    assert headnode(published.paths.root, "diff").code == 0


@pytest.mark.parametrize("moment", ["discard", "remember"])
def test_a_crash_after_going_live_leaves_no_file_that_nobody_would_remove(
    context: Context, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    enroll.enroll(context, [row_of(1)])
    with monkeypatch.context() as patch:
        target = publishing_module if moment == "discard" else publishing
        calls = {"discard": 2, "remember": 0}[moment]  # recovering and staging discard too
        patch.setattr(target, moment, Failing(getattr(target, moment), calls, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            publishing.publish_changes(context)
    assert (context.paths.published / "dnsmasq/provision.d/gpu01").exists()
    nodes.retire(context, ["gpu01"])
    publishing.publish_changes(again(context))
    assert set(tree(context.paths.published)) == set(SITE_FILES)


def test_a_refused_publish_is_tried_again_with_everything_still_due(published: Context) -> None:
    nodes.set_fields(published, ["gpu02"], {"mac": "52:54:00:ff:00:02"})

    def refuse_reload(touched: set[str]) -> None:
        raise HeadnodeError("no")

    before = tree(published.paths.published)
    with pytest.raises(PublishFailed, match="rolled back"):
        publishing.publish_changes(published, reload=refuse_reload)
    assert tree(published.paths.published) == before
    assert publishing.publish_changes(published).written == ("dnsmasq/provision.d/gpu02",)


def test_the_reload_is_told_what_was_touched(published: Context) -> None:
    told: list[set[str]] = []
    nodes.retire(published, ["gpu03"])
    publishing.publish_changes(published, reload=told.append)
    assert told == [{"dnsmasq/provision.d/gpu03", "dnsmasq/names.d/gpu03", "http/boot/10.20.1.3.ipxe"}]


@pytest.mark.program("dnsmasq")
def test_a_configuration_that_dnsmasq_refuses_stays_out(
    published: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = tree(published.paths.published)
    original = templates.render
    monkeypatch.setattr(
        templates, "render", lambda name, /, **v: original(name, **v) + ("nonsense\n" if "conf" in name else "")
    )
    with pytest.raises(PublishFailed, match=r"dnsmasq refuses .*bad option.*; what was live before still is"):
        publishing.publish_changes(published, full=True)
    assert tree(published.paths.published) == before


def test_preview_and_render_say_what_a_publish_would_do_and_do_nothing(published: Context) -> None:
    nodes.set_fields(published, ["gpu02"], {"mac": "52:54:00:ff:00:02"})
    nodes.retire(published, ["gpu03"])
    before = tree(published.paths.published)
    changes = {change.path: (change.now is None, change.then is None) for change in publishing.preview(published)}
    assert changes["dnsmasq/provision.d/gpu02"] == (False, False)
    assert changes["dnsmasq/provision.d/gpu03"] == (False, True)
    assert tree(published.paths.published) == before
    node = published.inventory.node("gpu01")
    assert node is not None
    rendered = publishing.render_node(published, node)
    assert {path: file.content for path, file in rendered.items()} == {path: before[path][0] for path in rendered}
    assert publishing.render_file(published, "no/such") is None


def test_a_certificate_may_be_a_link(published: Context, tmp_path: Path) -> None:
    """It is read for nodes, not looked at as something that may be anybody's."""
    certificate = published.paths.ca / "ca.crt"
    certificate.rename(tmp_path / "ca.crt")
    certificate.symlink_to(tmp_path / "ca.crt")
    shown = headnode(published.paths.root, "render", "gpu01", "--overlay")
    assert shown.code == 0
    assert "a link to" not in shown.out
    assert certificate.read_text().strip() in shown.out


def test_the_place_of_everything_is_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADNODE_ROOT", str(tmp_path))
    paths = Paths.from_environment()
    found = [paths.config, paths.ca, paths.state, paths.database, paths.published, paths.runtime, paths.logs]
    assert all(path.is_relative_to(tmp_path) for path in found)
