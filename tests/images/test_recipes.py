"""Recipes, package sources and the command they mean."""

import pytest

from headnode.errors import InvalidField
from images.ramdisk.recipe import FIRMWARE, ramdisk_recipe
from images.recipes import Recipe, image_recipe, mmdebstrap_argv, public_sources
from images.sources import Source, for_suite, parse_sources, proxy_options, to_text, with_components

DEB822 = """# the mirror
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main
"""
ONE_LINE = """
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/ubuntu noble main universe # comment
# deb http://off.example/ubuntu noble main
deb-src http://mirror.example/ubuntu noble main
deb http://mirror.example/ubuntu noble-security main
nonsense
"""
SETTINGS = {"os": "debian", "release": "12", "architecture": "x86_64", "packages": ("vim", "htop", "vim")}


def test_sources_of_both_kinds() -> None:
    (debian,) = parse_sources(DEB822)
    assert debian.uris == ("http://mirror.example/debian",)
    assert debian.signed_by == "/usr/share/keyrings/debian-archive-keyring.gpg"
    noble, security = parse_sources(ONE_LINE)
    assert (noble.suites, noble.components, noble.signed_by) == (("noble",), ("main", "universe"), "/k.gpg")
    assert security.suites == ("noble-security",)
    assert parse_sources("") == []


def test_only_the_releases_own_suites() -> None:
    (kept,) = for_suite(parse_sources(DEB822), "bookworm")
    assert kept.suites == ("bookworm", "bookworm-updates")
    assert for_suite(parse_sources(DEB822), "trixie") == []
    updates_alone = [Source(("http://m",), ("noble-security",), ("main",))]
    assert for_suite(updates_alone, "noble") == []


def test_sources_survive_being_written() -> None:
    sources = with_components(for_suite(parse_sources(DEB822), "bookworm"), ("main", "non-free-firmware"))
    assert sources[0].components == ("main", "contrib", "non-free-firmware")
    assert parse_sources(to_text(sources)) == sources


def test_a_key_written_into_the_file_is_not_taken_for_a_path() -> None:
    text = DEB822.replace("/usr/share/keyrings/debian-archive-keyring.gpg", "\n -----BEGIN PGP-----\n .\n abc")
    assert parse_sources(text)[0].signed_by == ""


def test_the_proxy_is_the_sites_or_this_machines() -> None:
    dump = 'Acquire::http "";\nAcquire::http::Proxy "http://p:3128";\nAcquire::https::Proxy "";\nAPT::X "1";\n'
    assert proxy_options(dump, "http://10.20.0.1:3142") == ['Acquire::http::Proxy "http://10.20.0.1:3142";']
    assert proxy_options(dump, None) == ['Acquire::http::Proxy "http://p:3128";']
    assert proxy_options("", None) == []


def test_an_image_has_the_profiles_packages_and_can_boot_with_both_firmwares() -> None:
    recipe = image_recipe(SETTINGS)
    assert recipe.suite == "bookworm"
    assert recipe.kernel == "linux-image-amd64"
    assert {"vim", "htop", "grub-pc-bin", "grub-efi-amd64-bin", "openssh-server"} <= set(recipe.packages)
    assert list(recipe.packages) == sorted(set(recipe.packages))


def test_ubuntu_is_the_same_code() -> None:
    recipe = image_recipe({**SETTINGS, "os": "ubuntu", "release": "24.04"})
    assert (recipe.suite, recipe.kernel) == ("noble", "linux-image-generic")
    assert public_sources("ubuntu", "noble")[0].suites == ("noble", "noble-updates", "noble-security")


def test_a_release_that_cannot_be_built() -> None:
    with pytest.raises(InvalidField, match="can be built for 12, 13"):
        image_recipe({**SETTINGS, "release": "7"})


def test_the_digest_is_that_of_the_content() -> None:
    assert image_recipe(SETTINGS).digest == image_recipe({**SETTINGS, "packages": ["htop", "vim"]}).digest
    assert image_recipe(SETTINGS).digest != image_recipe(SETTINGS, kernel="cloud").digest


def test_the_command() -> None:
    recipe = Recipe("debian", "bookworm", "amd64", ("a", "b"), "linux-image-amd64", without=("/usr/share/doc/*",))
    argv = mmdebstrap_argv(recipe, ['Acquire::http::Proxy "http://p";'])
    assert argv[0] == "mmdebstrap"
    assert "--include=a,b,linux-image-amd64" in argv
    assert "--dpkgopt=path-exclude=/usr/share/doc/*" in argv
    assert '--aptopt=Acquire::http::Proxy "http://p";' in argv
    assert argv[-3:] == ["bookworm", "-", "-"]


def test_the_ramdisk_has_firmware_only_when_asked() -> None:
    assert not set(FIRMWARE) & set(ramdisk_recipe().packages)
    with_firmware = ramdisk_recipe(firmware=True)
    assert set(FIRMWARE) <= set(with_firmware.packages)
    assert with_firmware.components == ("non-free-firmware",)
    assert ramdisk_recipe("cloud").kernel == "linux-image-cloud-amd64"
