"""The store of images, its signatures, and the commands over it."""

import fcntl
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError, InvalidField, NotFound
from headnode.model import Intent
from headnode.workflows import deploy, images
from headnode.workflows.context import Context
from images.signing import Signer, public_key, signer, valid
from images.store import Image, Store, clean_scratch, compare, parse_reference, scratch
from tests.support import headnode

MANIFEST = {
    "built": "2026-01-01T00:00:00+00:00", "kernel": "6.1.0-1-amd64", "unpacked_size": 1000,
    "recipe": {"os": "debian", "suite": "bookworm"},
}  # fmt: skip


def add(store: Store, key: Signer, work: Path, name: str = "gpu", **packages: str) -> Image:
    filled = work / f"filled-{os.urandom(4).hex()}"
    filled.mkdir(parents=True)
    (filled / "image.tar.zst").write_bytes(b"image " + name.encode())
    listed = [{"name": n, "version": v, "architecture": "amd64"} for n, v in (packages or {"bash": "1"}).items()]
    (filled / "packages.json").write_text(json.dumps(listed))
    return store.publish(name, filled, MANIFEST, key)


@pytest.fixture
def key(tmp_path: Path) -> Signer:
    return signer(tmp_path / "etc")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "images")


def test_versions_count_up_and_are_found(store: Store, key: Signer, tmp_path: Path) -> None:
    references = [add(store, key, tmp_path).reference for _ in range(3)]
    add(store, key, tmp_path, "login")
    assert references == ["gpu@1", "gpu@2", "gpu@3"]
    assert store.find("gpu").reference == "gpu@3"
    assert store.find("gpu@2").url == "/images/gpu@2/image.tar.zst"
    assert [image.reference for image in store.images()] == ["gpu@1", "gpu@2", "gpu@3", "login@1"]
    image = store.find("gpu@1")
    assert (image.size, image.unpacked_size, len(image.sha256)) == (9, 1000, 64)


def test_a_number_is_never_given_twice(store: Store, key: Signer, tmp_path: Path) -> None:
    for _ in range(2):
        add(store, key, tmp_path)
    store.remove(store.find("gpu@2"))
    store.remove(store.find("gpu@1"))
    assert store.images() == []
    assert add(store, key, tmp_path).reference == "gpu@3"


def test_the_newest_ones_number_is_not_given_again(store: Store, key: Signer, tmp_path: Path) -> None:
    for _ in range(2):
        add(store, key, tmp_path)
    store.remove(store.find("gpu@2"))
    assert add(store, key, tmp_path).reference == "gpu@3", "a node may remember that it has gpu@2"


@pytest.mark.parametrize("text", ["", "GPU", "gpu@", "gpu@0", "gpu@x", "../gpu", "gpu@1/..", "-a", "a" * 80])
def test_references_that_are_none(text: str) -> None:
    with pytest.raises(InvalidField):
        parse_reference(text)


def test_an_unknown_image_is_named_with_the_known_ones(store: Store, key: Signer, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="known are none yet"):
        store.find("gpu")
    add(store, key, tmp_path)
    with pytest.raises(NotFound, match="known are gpu@1"):
        store.find("gpu@9")


def test_what_is_not_as_it_was_built(store: Store, key: Signer, tmp_path: Path) -> None:
    image = add(store, key, tmp_path)
    assert store.verify(image, key.public) == []
    stranger = signer(tmp_path / "other")
    assert store.verify(image, stranger.public) == ["the manifest's signature is not this site's"]
    (image.directory / "image.tar.zst").chmod(0o644)
    (image.directory / "image.tar.zst").write_bytes(b"imagf gpu")
    (image.directory / "packages.json").unlink()
    (image.directory / "extra").touch()
    problems = " ".join(store.verify(image, key.public))
    assert "image.tar.zst was changed" in problems
    assert "packages.json is missing" in problems
    assert "extra does not belong" in problems


def test_a_manifest_changed_with_its_file_is_found_by_its_signature(store: Store, key: Signer, tmp_path: Path) -> None:
    image = add(store, key, tmp_path)
    manifest = image.directory / "manifest.json"
    manifest.chmod(0o644)
    manifest.write_text(manifest.read_text().replace("6.1.0", "6.6.6"))
    assert store.verify(store.find("gpu"), key.public) == ["the manifest's signature is not this site's"]


def test_directories_that_are_no_images(store: Store, key: Signer, tmp_path: Path) -> None:
    add(store, key, tmp_path)
    (store.root / "gpu@7").mkdir()
    (store.root / "gpu@8").mkdir()
    (store.root / "gpu@8/manifest.json").write_text("{")
    (store.root / "notes").mkdir()
    assert [image.reference for image in store.images()] == ["gpu@1"]


def test_differences(store: Store, key: Signer, tmp_path: Path) -> None:
    before = add(store, key, tmp_path, bash="1", curl="7", vim="9")
    after = add(store, key, tmp_path, bash="2", vim="9", zsh="5")
    found = [(d.kind, d.name, d.before, d.after) for d in compare(before, after)]
    assert found == [("changed", "bash", "1", "2"), ("removed", "curl", "7", None), ("added", "zsh", None, "5")]


def test_old_versions_go_unless_somebody_uses_them(store: Store, key: Signer, tmp_path: Path) -> None:
    for _ in range(5):
        add(store, key, tmp_path)
    add(store, key, tmp_path, "login")
    old = store.old(2, lambda image: image.version == 2)
    assert [image.reference for image in old] == ["gpu@1", "gpu@3"]
    assert [image.reference for image in store.old(0, lambda _: False)] == ["gpu@1", "gpu@2", "gpu@3", "gpu@4"]


def test_the_key_is_roots_alone_and_stays(tmp_path: Path) -> None:
    first = signer(tmp_path)
    assert (tmp_path / "image.key").stat().st_mode & 0o777 == 0o600
    assert signer(tmp_path).public == first.public == public_key(tmp_path)
    assert valid(b"x", first.sign(b"x"), first.public)
    for content, signature, public in (
        (b"y", first.sign(b"x"), first.public),
        (b"x", "", first.public),
        (b"x", "!", "?"),
    ):
        assert not valid(content, signature, public)
    (tmp_path / "image.key").chmod(0o644)
    with pytest.raises(HeadnodeError, match="readable by others"):
        signer(tmp_path)


def test_what_killed_builds_left_is_removed_and_living_ones_stay(tmp_path: Path) -> None:
    work = tmp_path / "build"
    (work / "gpu-1-dead/mmdebstrap.x").mkdir(parents=True)
    (work / "gpu-2-alive").mkdir()
    alive = os.open(work / "gpu-2-alive", os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    with scratch(work, "gpu") as place:
        assert not (work / "gpu-1-dead").exists()
        assert place.exists()
        assert clean_scratch(work) == []
    os.close(alive)
    assert not place.exists()
    assert [path.name for path in clean_scratch(work)] == ["gpu-2-alive"]


def test_builds_that_begin_at_once_keep_out_of_each_others_way(tmp_path: Path) -> None:
    ready = threading.Barrier(8)

    def begin(number: int) -> str:
        ready.wait(10)
        with scratch(tmp_path / "build", "gpu") as place:
            (place / "image").mkdir()
            public = signer(tmp_path / "keys").public
            assert (place / "image").is_dir()
            return public

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(begin, range(8)))) == 1
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["image.key", "image.pub"]


def test_commands(root: Path, tmp_path: Path) -> None:
    assert "no images yet" in headnode(root, "image", "list").err
    store, key = Store(root / "var/lib/headnode/images"), signer(root / "etc/headnode")
    for version in ("1", "2", "3", "4", "5"):
        add(store, key, tmp_path, bash=version)
    listed = headnode(root, "image", "list")
    assert listed.out.splitlines()[1].startswith("gpu@1")
    assert "unpacked_size" in headnode(root, "image", "show", "gpu").out
    assert headnode(root, "image", "show", "gpu@2", "--packages", "-o", "csv").out.splitlines()[1] == "bash,2,amd64"
    assert "changed  bash  2       3" in headnode(root, "image", "diff", "gpu@2", "gpu@3").out
    assert headnode(root, "image", "diff", "gpu@2", "gpu@2").err == "Both have the same packages.\n"
    verified = headnode(root, "image", "verify")
    assert (verified.code, len(verified.out.splitlines())) == (0, 5)
    assert headnode(root, "image", "gc", "--dry-run").out.split() == ["gpu@1", "gpu@2"]
    assert headnode(root, "image", "gc").code == 2, "nobody could be asked"
    assert headnode(root, "image", "gc", "--yes").code == 0
    assert headnode(root, "image", "list", "-o", "name").out.split() == ["gpu@3", "gpu@4", "gpu@5"]
    (store.root / "gpu@4/image.tar.zst").unlink()
    broken = headnode(root, "image", "verify")
    assert (broken.code, "gpu@4: image.tar.zst is missing" in broken.out) == (1, True)
    assert headnode(root, "image", "show", "none@1").code == 2


def test_a_pinned_version_is_not_removed(root: Path, tmp_path: Path) -> None:
    store, key = Store(root / "var/lib/headnode/images"), signer(root / "etc/headnode")
    for version in ("1", "2", "3"):
        add(store, key, tmp_path, bash=version)
    assert headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes").code == 0
    assert headnode(root, "set", "gpu01", "image=gpu@1", "--yes").code == 0
    assert headnode(root, "image", "gc", "--keep", "1", "--dry-run").out.split() == ["gpu@2"]


def test_a_version_that_is_being_installed_stays(root: Path, context: Context, tmp_path: Path) -> None:
    store, key = Store(root / "var/lib/headnode/images"), signer(root / "etc/headnode")
    for version in ("1", "2", "3"):
        add(store, key, tmp_path, bash=version)
    assert headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes").code == 0
    deploy.begin(context, ["gpu01"], Intent.DEPLOY, image="gpu@1")
    assert headnode(root, "image", "gc", "--keep", "1", "--dry-run").out.split() == ["gpu@2"]
    refused = headnode(root, "image", "remove", "gpu@1", "--yes")
    assert (refused.code, "is being installed on gpu01" in refused.err) == (2, True)
    deploy.abort(context, ["gpu01"])
    assert headnode(root, "image", "gc", "--keep", "1", "--dry-run").out.split() == ["gpu@1", "gpu@2"]


@pytest.mark.parametrize("name", ["Bad Name", "../x", "gpu@3", "", "a/b", "-a"])
def test_a_name_that_is_none_is_refused_before_anything_is_made(root: Path, name: str) -> None:
    found = headnode(root, "image", "build", "--", name)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"headnode: image is '{name}'; use lower-case letters")
    assert not (root / "var/log/headnode/images").exists()


def test_an_image_that_no_node_would_get_is_not_built(root: Path) -> None:
    found = headnode(root, "image", "build", "gpuu")
    assert found.code == 2
    assert "image is 'gpuu'; no profile, group or node uses an image of that name" in found.err
    assert "gpu" in found.err.split("in use are ")[1].splitlines()[0].split(", ")
    assert "--profile" in found.err
    assert not (root / "var/log/headnode/images").exists()


def test_every_name_in_use_can_be_built(root: Path, context: Context) -> None:
    assert headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes").code == 0
    assert headnode(root, "set", "gpu01", "image=special@2", "--yes").code == 0
    assert images.check_build(context, "special", None) is None
    assert images.check_build(context, "gpu", None) == "gpu"
    assert images.check_build(context, "mine", "gpu") == "gpu", "whoever says a profile means it"


def test_a_bad_image_is_refused_where_it_is_set(root: Path) -> None:
    assert headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes").code == 0
    found = headnode(root, "set", "gpu01", "image=Bad Name", "--yes")
    assert (found.code, "such as gpu or gpu@3" in found.err) == (2, True)
