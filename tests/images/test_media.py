"""Media of installers: what they are found to be, what is refused, what becomes of them. ISOs are real, if small."""

import hashlib
import io
from pathlib import Path

import pytest
from pycdlib import PyCdlib

from headnode.errors import InvalidInput
from headnode.paths import Paths
from headnode.workflows.context import Context
from images import media
from images.store import Store
from tests.support import Result, headnode

NOBLE = 'Ubuntu-Server 24.04.3 LTS "Noble Numbat" - Release amd64 (20250805.1)'
F1 = b"Welcome to Debian GNU/Linux!\n\nThis is a Debian 12 (bookworm) installation netboot image.\n"
JAMMY = 'Ubuntu-Server 22.04.5 LTS "Jammy Jellyfish" - Release amd64 (20240911)'


def iso(path: Path, files: dict[str, bytes], label: str = "MEDIUM", *, rock_ridge: bool = True) -> Path:
    """An ISO with these files, at most one directory deep, written by the library that also reads it."""
    made = PyCdlib()
    made.new(interchange_level=3, vol_ident=label, rock_ridge="1.09" if rock_ridge else None)
    folders: dict[str, str] = {}
    for number, (name, content) in enumerate(files.items()):
        folder, _, leaf = name.strip("/").rpartition("/")
        if folder and folder not in folders:
            folders[folder] = f"/D{number}"
            made.add_directory(folders[folder], rr_name=folder)
        place = f"{folders.get(folder, '')}/{f'F{number}.' if rock_ridge else leaf.upper()};1"
        made.add_fp(io.BytesIO(content), len(content), place, rr_name=leaf if rock_ridge else None)
    made.write(str(path))
    made.close()
    return path


def ubuntu(path: Path, info: str = NOBLE) -> Path:
    casper = {"/casper/vmlinuz": b"kernel" * 100, "/casper/initrd": b"initrd" * 100}
    return iso(path, {**casper, "/.disk/info": info.encode()})


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def imported(root: Path, *args: str | Path) -> Result:
    return headnode(root, "image", "import", *map(str, args))


@pytest.mark.parametrize(("info", "name"), [(NOBLE, "ubuntu-24.04"), (JAMMY, "ubuntu-22.04")])
def test_ubuntu_is_recognised_and_kept_whole(root: Path, tmp_path: Path, info: str, name: str) -> None:
    file = ubuntu(tmp_path / "live.iso", info)
    told = imported(root, file, "--sha256", digest(file))
    assert told.code == 0, told.err
    assert told.out == f"{name}@1\n"
    found = Store(Paths(root).state / "images").find(name)
    assert found.method == "autoinstall"
    assert (found.directory / "vmlinuz").read_bytes() == b"kernel" * 100
    assert (found.directory / "initrd").read_bytes() == b"initrd" * 100
    assert digest(found.directory / "media.iso") == digest(file)
    assert headnode(root, "image", "verify", f"{name}@1").code == 0
    listed = headnode(root, "image", "list")
    assert "autoinstall" in listed.out
    assert headnode(root, "image", "show", name).code == 0
    assert imported(root, file, "--sha256", digest(file)).out == f"{name}@2\n", "versions as for images"


def test_debians_mini_iso_is_recognised(root: Path, tmp_path: Path) -> None:
    file = iso(tmp_path / "mini.iso", {"/linux": b"k" * 99, "/initrd.gz": b"i" * 99, "/f1.txt": F1})
    told = imported(root, file, "--sha256", digest(file), "--name", "bookworm")
    assert told.out == "bookworm@1\n", told.err
    found = Store(Paths(root).state / "images").find("bookworm")
    assert (found.method, found.manifest["os"], found.manifest["release"]) == ("preseed", "debian", "12")
    assert sorted(path.name for path in found.directory.iterdir()) == [
        "initrd",
        "manifest.json",
        "manifest.sig",
        "vmlinuz",
    ]


def test_a_checksum_is_required_and_compared(root: Path, tmp_path: Path) -> None:
    file = ubuntu(tmp_path / "live.iso")
    sums = tmp_path / "SHA256SUMS"
    cases = [
        ((), "a checksum is required"),
        (("--sha256", "0" * 64), f"and {'0' * 64} was expected; nothing was imported"),
        (("--sha256", "abc"), "use its 64 hexadecimal digits"),
        (("--sums", str(sums)), "SHA256SUMS does not list live.iso"),
    ]
    sums.write_text(f"{'0' * 64} *other.iso\n")
    for args, words in cases:
        told = imported(root, file, *args)
        assert told.code == 2
        assert words in told.err
    sums.write_text(f"{'0' * 64} *other.iso\n{digest(file)} *live.iso\n")
    assert imported(root, file, "--sums", sums).code == 0


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"/linux": b"x"}, "its volume is called 'MEDIUM', it has no .disk/info, and holds linux"),
        ({"/linux": b"x", "/initrd.gz": b"y"}, "and holds initrd.gz, linux"),
        ({"/.disk/info": b"Fedora 40"}, "it says of itself 'Fedora 40'"),
        ({"/.disk/info": NOBLE.replace("24.04.3", "25.10").encode(), "/casper/vmlinuz": b"x"}, "Ubuntu-Server 25.10"),
        ({"/.disk/info": NOBLE.encode()}, "Ubuntu-Server 24.04"),
    ],
)
def test_unknown_media_are_refused_with_what_was_found(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    file = iso(tmp_path / "unknown.iso", files)
    with pytest.raises(InvalidInput, match="is no installer that is known") as caught:
        media.identify(file)
    assert words in caught.value.message


@pytest.mark.parametrize("content", [b"", b"\0" * 40_000, b"#!/bin/sh\n", b"\x01CD001" * 9000])
def test_what_is_no_iso_is_said_so(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "garbage.iso"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"garbage\.iso is no (ISO image|installer)"):
        media.identify(file)


def test_names_without_rock_ridge_are_found_too(tmp_path: Path) -> None:
    file = iso(tmp_path / "plain.iso", {"/linux": b"x", "/initrd.gz": b"y", "/f1.txt": F1}, rock_ridge=False)
    assert media.identify(file).method == "preseed"


def test_a_medium_is_removed_like_an_image(root: Path, context: Context, tmp_path: Path) -> None:
    file = ubuntu(tmp_path / "live.iso")
    for _ in range(2):
        assert imported(root, file, "--sha256", digest(file)).code == 0
    assert "say which, such as ubuntu-24.04@2" in headnode(root, "image", "remove", "ubuntu-24.04", "--yes").err
    assert headnode(root, "image", "remove", "ubuntu-24.04@1", "--dry-run").code == 0
    assert headnode(root, "image", "remove", "ubuntu-24.04@1", "--yes").code == 0
    assert headnode(root, "image", "remove", "ubuntu-24.04@1", "--yes").code == 2
    path = root / "etc/headnode/site.yaml"
    path.write_text(path.read_text().replace("    image: cpu\n", "    image: ubuntu-24.04@2\n"))
    told = headnode(root, "image", "remove", "ubuntu-24.04@2", "--yes")
    assert told.code == 2
    assert "is named by a profile" in told.err


def test_a_file_or_a_release_must_be_named(root: Path) -> None:
    assert "name a file, or a release with --debian" in imported(root).err
    assert "known are 12, 13" in imported(root, "--debian", "7").err


@pytest.mark.integration
@pytest.mark.program("apt-get", "dpkg-deb")
def test_debians_own_package_is_imported(root: Path) -> None:
    """From the archive, as this machine reaches it."""
    told = imported(root, "--debian", "12")
    assert told.out == "debian-12@1\n", told.err
    found = Store(Paths(root).state / "images").find("debian-12")
    assert found.method == "preseed"
    assert (found.directory / "vmlinuz").read_bytes()[0x202:0x206] == b"HdrS", "a Linux kernel"
    assert (found.directory / "initrd").read_bytes()[:2] == b"\x1f\x8b"
