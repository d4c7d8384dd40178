"""Root file systems as tar and cpio: what is dropped, replaced, kept and found."""

import io
import tarfile
from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.run import run
from images import cpio, tarball
from images.build import replacements
from images.ramdisk.build import assemble, convert, old_versions, own_files, publish
from images.recipes import LEFTOVERS, Recipe
from images.tarball import Replacement

STATUS = """Package: bash
Status: install ok installed
Version: 5.2.15-2+b7
Architecture: amd64
Description: shell
 with: a colon

Package: gone
Status: deinstall ok config-files
Version: 1

Package: adduser
Status: install ok installed
Version: 3.134
Architecture: all
"""
FILES = {
    "boot/vmlinuz-6.1": b"kernel",
    "boot/initrd.img-6.1": b"initrd",
    "etc/hostname": b"builder.example\n",
    "etc/resolv.conf": b"nameserver 1.2.3.4\n",
    "etc/machine-id": b"0123456789abcdef\n",
    "etc/passwd-": b"old",
    "etc/passwd": b"root",
    "etc/ssh/ssh_host_rsa_key": b"SECRET",
    "etc/ssh/sshd_config": b"x",
    "etc/apt/sources.list.d/0000build.sources": b"URIs: http://mirror.inside\n",
    "var/log/dpkg.log": b"today",
    "var/lib/dpkg/status": STATUS.encode(),
}
RECIPE = Recipe("debian", "bookworm", "amd64", (), "linux-image-amd64")


def archive(files: dict[str, bytes], links: dict[str, str] | None = None) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        directory = tarfile.TarInfo("./etc/")
        directory.type, directory.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(directory)
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mtime, member.uid, member.mode = len(content), 1000, 7, 0o640
            member.pax_headers = {"SCHILY.xattr.security.capability": "\x01\udcff\x02"} if name == "etc/passwd" else {}
            tar.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    stream.seek(0)
    return stream


def copied(files: dict[str, bytes]) -> tuple[tarball.Seen, tarfile.TarFile]:
    target = io.BytesIO()
    seen = tarball.copy(archive(files), target, drop=LEFTOVERS, replace=replacements(RECIPE), mtime=1000)
    target.seek(0)
    return seen, tarfile.open(fileobj=target)


def test_nothing_of_the_building_machine_stays() -> None:
    seen, tar = copied(FILES)
    names = {tarball.plain(name) for name in tar.getnames()}
    assert "etc/ssh/ssh_host_rsa_key" not in names
    assert not names & {
        "etc/resolv.conf",
        "etc/passwd-",
        "var/log/dpkg.log",
        "etc/apt/sources.list.d/0000build.sources",
    }
    assert {"etc/passwd", "etc/ssh/sshd_config", "etc/machine-id", "etc/apt/sources.list.d/debian.sources"} <= names
    content = b"".join((tar.extractfile(member) or io.BytesIO()).read() for member in tar if member.isreg())
    for secret in (b"builder.example", b"0123456789abcdef", b"SECRET", b"mirror.inside"):
        assert secret not in content
    assert seen.kernel == "6.1"
    assert seen.kept == {"boot/vmlinuz-6.1": b"kernel", "boot/initrd.img-6.1": b"initrd"}


def test_owners_modes_and_capabilities_stay() -> None:
    _, tar = copied(FILES)
    member = tar.getmember("./etc/passwd")
    assert (member.uid, member.mode, member.mtime) == (7, 0o640, 1000)
    assert member.pax_headers["SCHILY.xattr.security.capability"] == "\x01\udcff\x02"


def test_the_same_input_gives_the_same_bytes() -> None:
    outputs = []
    for _ in range(2):
        target = io.BytesIO()
        tarball.copy(archive(FILES), target, drop=LEFTOVERS, replace=replacements(RECIPE), mtime=1000)
        outputs.append(target.getvalue())
    assert outputs[0] == outputs[1]


def test_the_bill_of_materials() -> None:
    assert tarball.packages(STATUS) == [
        {"name": "adduser", "version": "3.134", "architecture": "all"},
        {"name": "bash", "version": "5.2.15-2+b7", "architecture": "amd64"},
    ]
    assert tarball.packages("") == []


@pytest.mark.parametrize("end", [0, 100, 1600, 9000])
def test_a_stream_that_breaks_off(end: int) -> None:
    """Between two files it cannot be told from a whole one; then mmdebstrap's exit code tells."""
    broken = io.BytesIO(archive({"large": b"x" * 20_000}).getvalue()[:end])
    with pytest.raises(HeadnodeError):
        tarball.copy(broken, io.BytesIO(), drop=(), replace={}, mtime=0)


def test_what_is_dropped() -> None:
    unwanted = tarball.matcher(("usr/share/doc/*", "etc/*-"))
    assert unwanted("usr/share/doc/a/b")
    assert unwanted("etc/shadow-")
    assert not unwanted("usr/share/doc")
    assert not tarball.matcher(())("anything")


@pytest.mark.program("busybox")
def test_the_ramdisks_archive_is_read_by_cpio(tmp_path: Path) -> None:
    target = io.BytesIO()
    kernel = convert(archive(FILES, {"bin": "usr/bin"}), target, ("boot/*", "var/*"), 1000)
    assert kernel == b"kernel"
    (tmp_path / "a.cpio").write_bytes(target.getvalue())
    listed = run(["busybox", "cpio", "-t", "-F", tmp_path / "a.cpio"]).stdout.split()
    assert "etc/passwd" in listed
    assert not [name for name in listed if name.startswith(("boot", "var"))]
    (tmp_path / "out").mkdir()
    run(["busybox", "cpio", "-id", "-F", tmp_path / "a.cpio"], cwd=tmp_path / "out")
    assert (tmp_path / "out/etc/passwd").read_bytes() == b"root"
    assert (tmp_path / "out/bin").readlink() == Path("usr/bin")


def test_a_ramdisk_needs_a_kernel() -> None:
    with pytest.raises(HeadnodeError, match="no kernel"):
        convert(archive({"etc/passwd": b"x"}), io.BytesIO(), (), 0)


def test_our_own_files_are_all_there() -> None:
    files = own_files()
    assert files["init"].mode == 0o755
    assert "usr/lib/headnode/headnode_agent/__main__.py" in files
    assert b"import headnode" not in b"".join(file.content for file in files.values())


@pytest.mark.program("sh")
@pytest.mark.parametrize("name", ["init", "usr/lib/headnode/dhcp"])
def test_the_shell_reads_our_scripts(name: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_bytes(own_files()[name].content)
    run(["sh", "-n", tmp_path / "script"])


def test_a_new_ramdisk_replaces_the_old_with_one_rename(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "packages.cpio.zst").write_bytes(b"123")
    (base / "vmlinuz").write_bytes(b"kernel")
    place = tmp_path / "ramdisk/x86_64"
    for number in range(4):
        out = tmp_path / f"out{number}"
        out.mkdir()
        assemble(base, out, 1000)
        publish(out, place)
    assert (place / "vmlinuz").read_bytes() == b"kernel"
    initrd = (place / "initrd").read_bytes()
    assert initrd.startswith(b"123\0" + cpio.HEADER), "the second archive begins at a multiple of four"
    assert place.readlink() == Path("x86_64.4")
    assert [path.name for path in old_versions(place)] == ["x86_64.1", "x86_64.2"]


def test_replacements_are_written_once() -> None:
    target = io.BytesIO()
    tarball.copy(archive({"a": b"old"}), target, drop=(), replace={"a": Replacement(b"new", 0o600)}, mtime=5)
    target.seek(0)
    with tarfile.open(fileobj=target) as tar:
        assert [tarball.plain(name) for name in tar.getnames()] == ["etc", "a"]
        assert tar.getmember("./a").mode == 0o600


def test_a_daemons_log_directory_stays_and_apts_own_do_not() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        directory = tarfile.TarInfo("./var/log/chrony")
        directory.type, directory.uid = tarfile.DIRTYPE, 103
        tar.addfile(directory)
        tar.addfile(tarfile.TarInfo("./var/log/chrony/today.log"))
        directory.name = "./var/cache/apt/archives/partial"
        tar.addfile(directory)
    stream.seek(0)
    target = io.BytesIO()
    tarball.copy(stream, target, drop=LEFTOVERS, replace={}, mtime=0)
    target.seek(0)
    with tarfile.open(fileobj=target) as tar:
        assert [(member.name, member.uid) for member in tar] == [("./var/log/chrony", 103)]


def test_the_order_of_attributes_makes_no_difference() -> None:
    outputs = []
    for order in (("a", "b"), ("b", "a")):
        stream, target = io.BytesIO(), io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
            member = tarfile.TarInfo("./file")
            member.pax_headers = {f"SCHILY.xattr.user.{name}": "\udcff" for name in order}
            tar.addfile(member)
        stream.seek(0)
        tarball.copy(stream, target, drop=(), replace={}, mtime=0)
        outputs.append(target.getvalue())
    assert outputs[0] == outputs[1]
