"""Packages carried by hand: fetched from the real archive, proven, and enough to build from with no network at all."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError, InvalidInput
from headnode.lab.lab import Lab
from headnode.paths import Paths
from headnode.site import Packages, Site
from headnode.workflows import mirror
from headnode.workflows.context import Context
from images.bootstrap import root_file_system
from images.mirror import Need, from_mirror, index, prove
from images.recipes import Recipe
from tests.support import headnode

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.program("apt-ftparchive", "mmdebstrap", "ip"),
]
# As small as an image can be: what is tested is the way, not the size.
SMALL = Recipe("debian", "bookworm", "amd64", ("zstd",), "kmod", variant="essential")
NEEDS = [Need("profile small", SMALL)]


def quiet(_: str) -> None: ...


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, _made_root: Path) -> tuple[Path, str]:
    place = tmp_path_factory.mktemp("mirror")
    context = Context(Paths(Path(shutil.copytree(_made_root, place / "root"))), "tester", "a test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirror, "image_needs", lambda *_: list(NEEDS))
        made = mirror.export(context, place / "m.tar", ["cpu"], kernel="cloud", ramdisk=False, progress=quiet)
        with pytest.raises(InvalidInput, match="exists already"):
            mirror.export(context, place / "m.tar", ["cpu"], kernel="cloud", ramdisk=False, progress=quiet)
    assert made.packages > 50
    assert not list((context.paths.state / "build").iterdir())
    context.close()
    return place / "m.tar", made.sha256


def mirrored(site: Site) -> Site:
    return site.model_copy(update={"packages": Packages(mirror="head")})


def test_it_is_enough_to_build_from_where_there_is_no_network(
    archive: tuple[Path, str], context: Context, running_lab: Lab, tmp_path: Path
) -> None:
    island = running_lab.host("island")
    with island.inside():
        found = mirror.bring_in(context, archive[0], sha256=archive[1], progress=quiet)
        recipe = from_mirror(mirrored(context.site), context.paths, SMALL)
        log = tmp_path / "build.log"
        log.touch()
        packed = io.BytesIO()
        with root_file_system(recipe, tmp_path, log, 1_700_000_000, proxy=None, progress=quiet) as stream:
            shutil.copyfileobj(stream, packed)
    assert found.profiles == ("cpu",)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        names = {member.name.removeprefix("./") for member in tar}
    assert {"usr/bin/zstd", "bin/kmod"} & names
    assert context.inventory.events()[-1].kind == "mirror"


def test_another_import_takes_its_place_and_the_same_one_changes_nothing(
    archive: tuple[Path, str], context: Context
) -> None:
    for _ in range(2):
        mirror.bring_in(context, archive[0], sha256=None, progress=quiet)
    places = sorted(path.name for path in context.paths.mirror.iterdir())
    assert places == [archive[1][:16], "current"]
    assert (context.paths.mirror / "current/debian/dists/bookworm/Release").exists()


def rewritten(archive: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    with tarfile.open(archive) as old, tarfile.open(target, "w") as new:
        for member in old:
            source = old.extractfile(member)
            assert source is not None
            content = change(member.name, source.read())
            if content is not None:
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))


def without_digest(name: str, content: bytes) -> bytes:
    if name != "manifest.json":
        return content
    about = json.loads(content)
    return json.dumps({**about, "files": dict(list(about["files"].items())[1:])}).encode()


WRONG: dict[str, Callable[[str, bytes], bytes | None]] = {
    "a changed package": lambda name, content: content + b"x" if name.endswith(".deb") else content,
    "a missing package": lambda name, content: None if "libzstd1" in name else content,
    "a package nobody mentioned": without_digest,
    "no description": lambda name, content: None if name == "manifest.json" else content,
    "nonsense as description": lambda name, content: b"[]" if name == "manifest.json" else content,
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_as_it_was_exported_is_refused(
    what: str, archive: tuple[Path, str], context: Context, tmp_path: Path
) -> None:
    rewritten(archive[0], tmp_path / "wrong.tar", WRONG[what])
    with pytest.raises(HeadnodeError):
        mirror.bring_in(context, tmp_path / "wrong.tar", sha256=None, progress=quiet)
    with pytest.raises(InvalidInput, match="has the digest"):
        mirror.bring_in(context, tmp_path / "wrong.tar", sha256=archive[1], progress=quiet)
    assert not context.paths.mirror.exists()


def test_a_cut_archive_and_anything_else_are_refused(
    archive: tuple[Path, str], context: Context, tmp_path: Path
) -> None:
    content = archive[0].read_bytes()
    for number, wrong in enumerate((content[: len(content) // 2], b"", b"rubbish" * 1000)):
        (tmp_path / f"{number}.tar").write_bytes(wrong)
        with pytest.raises(HeadnodeError):
            mirror.bring_in(context, tmp_path / f"{number}.tar", sha256=None, progress=quiet)
    assert not context.paths.mirror.exists()


def test_a_mirror_that_is_not_enough_is_named_before_it_is_live(archive: tuple[Path, str], tmp_path: Path) -> None:
    with tarfile.open(archive[0]) as tar:
        tar.extractall(tmp_path, filter="data")
    (lost,) = (tmp_path / "tree").rglob("libzstd1_*.deb")
    lost.unlink()
    index(tmp_path / "tree/debian", "bookworm", "amd64")
    with pytest.raises(HeadnodeError, match=r"the mirror is not enough for profile small: .*libzstd1"):
        prove(NEEDS, tmp_path / "tree", tmp_path, quiet)


def test_on_the_command_line(archive: tuple[Path, str], root: Path, tmp_path: Path) -> None:
    asked = headnode(root, "mirror", "import", str(archive[0]))
    assert asked.code == 2, "nobody could be asked"
    done = headnode(root, "mirror", "import", str(archive[0]), "--sha256", archive[1])
    assert done.code == 0, done.err
    assert "mirror: head" in done.err
    assert headnode(root, "mirror", "import", str(tmp_path / "none.tar"), "--yes").code == 2
    assert headnode(root, "mirror", "export", str(tmp_path / "x.tar"), "--profile", "nobody").code == 2
    assert not (tmp_path / "x.tar").exists()
