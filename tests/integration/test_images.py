"""Real builds with mmdebstrap: the same bytes twice, and nothing left behind by one that fails or is killed."""

import hashlib
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.workflows import images as workflow
from headnode.workflows.context import Context
from images.build import build
from images.signing import signer
from images.store import IMAGE, Image, Store
from tests.images import cached
from tests.support import HEADNODE, headnode

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("mmdebstrap", "zstd", "unshare", "setpriv"),
    pytest.mark.timeout(900),
]


def another(tmp_path: Path, name: str) -> Image:
    return build(
        Store(tmp_path / "images"), name, cached.NODE, signer(tmp_path), work=tmp_path / "work",
        logs=tmp_path / "logs", epoch=cached.EPOCH, progress=lambda _: None,
    )  # fmt: skip


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = cached.node_image(), another(tmp_path, "one")
    if first.packages != second.packages:
        # The archive has moved on since that one was built, so it says nothing.
        first = another(tmp_path, "two")
    assert first.packages == second.packages
    assert differing(first, second) == []
    files = ("vmlinuz", "initrd", "packages.json", "image.tar.zst")
    assert {n: first.manifest["files"][n] for n in files} == {n: second.manifest["files"][n] for n in files}
    assert list((tmp_path / "work").iterdir()) == []


def differing(first: Image, second: Image) -> list[str]:
    """Entries that are not the same in both, so that a failure names its cause."""
    before, after = entries(first), entries(second)
    return [
        f"{n}: {before.get(n)} / {after.get(n)}" for n in sorted({*before, *after}) if before.get(n) != after.get(n)
    ]


def entries(image: Image) -> dict[str, tuple[object, ...]]:
    unpack = subprocess.Popen(["zstd", "-dcq", str(image.directory / IMAGE)], stdout=subprocess.PIPE)
    found: dict[str, tuple[object, ...]] = {}
    with unpack, tarfile.open(fileobj=unpack.stdout, mode="r|") as tar:
        for number, member in enumerate(tar):
            content = tar.extractfile(member) if member.isreg() else None
            digest = hashlib.sha256(content.read()).hexdigest() if content else member.linkname
            owner = (member.mode, member.uid, member.gid, member.mtime)
            found[member.name] = (number, *owner, member.size, digest, list(member.pax_headers.items()))
    return found


def test_a_package_that_does_not_exist_is_named_and_nothing_is_published(tmp_path: Path) -> None:
    recipe = replace(cached.NODE, packages=("no-such-package-anywhere",))
    store = Store(tmp_path / "images")
    with pytest.raises(HeadnodeError, match="no-such-package-anywhere"):
        build(
            store, "bad", recipe, signer(tmp_path), work=tmp_path / "work", logs=tmp_path / "logs", epoch=1,
            progress=lambda _: None,
        )  # fmt: skip
    assert store.images() == []
    assert list((tmp_path / "work").iterdir()) == []
    assert "no-such-package-anywhere" in next((tmp_path / "logs").iterdir()).read_text()


def test_a_killed_build_leaves_nothing_running_mounted_or_published(root: Path, context: Context) -> None:
    process = subprocess.Popen(
        [*HEADNODE, "image", "build", "base", "--kernel", "cloud"],
        env={**os.environ, "HEADNODE_ROOT": str(root)}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    said = b""
    while b"unpacking the essential packages" not in said:
        line = process.stderr.readline()
        assert line, said.decode()
        said += line
    work = workflow.workplace(context)
    assert users_of(work)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert waited(lambda: not users_of(work), 10), f"still running: {users_of(work)}"
    assert str(work) not in Path("/proc/self/mounts").read_text()
    assert workflow.list_images(context) == []
    assert list(work.iterdir()), "what a killed process had written is still there"
    assert headnode(root, "image", "gc", "--yes").code == 0
    assert list(work.iterdir()) == []


def users_of(place: Path) -> list[str]:
    """Processes that have this place on their command line, as their root, or in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if f"{place}/".encode() in words and state != "Z":
            found.append(words[:100].replace(b"\0", b" ").decode(errors="replace"))
    return found


def waited(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
