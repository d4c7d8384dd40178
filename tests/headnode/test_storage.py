"""Who serves what to whom, where homes are, and when cached copies of network files make room."""

import os
from pathlib import Path

import pytest

from headnode import exports, packagecache, run, sitefile
from headnode.errors import HeadnodeError, InvalidField, InvalidSite, PublishFailed
from headnode.homes import home_directory, home_on_node, make_home
from headnode.paths import Paths
from headnode.shares import clients, served, server_address, shares
from headnode.site import Site
from headnode.units import unit_files
from images.culling import limits

SITE = """
cluster: demo
domain: demo.lan
networks:
  provision: {cidr: 10.20.0.0/16, interface: p0, head: 10.20.0.1, node_range: 10.20.1.0-10.20.2.0}
"""
STORAGE_NET = "  storage: {cidr: 10.22.0.0/16, interface: s0, head: 10.22.0.1}\n"


def parsed(storage: str, networks: str = "") -> Site:
    return sitefile.parse(f"{SITE}{networks}storage: {storage}\n".encode(), "site.yaml")


@pytest.mark.parametrize(
    "home", ["head:/srv/home", "{server: head, export: /srv/home}", "{export: /srv/home}", "/srv/home"]
)
def test_what_the_head_node_serves_can_be_said_in_several_ways(home: str) -> None:
    (share,) = shares(parsed(f"{{home: '{home}'}}" if home[0] != "{" else f"{{home: {home}}}"))
    assert (share.source, share.path, share.served) == ("10.20.0.1:/srv/home", "/home", True)


def test_somebody_elses_server_is_only_mounted() -> None:
    site = parsed("{home: 'nas.example.org:/export/home', mounts: [{source: 'nas:/x', path: /x, read_only: true}]}")
    assert [(share.source, share.served, "ro" in share.options) for share in shares(site)] == [
        ("nas.example.org:/export/home", False, False),
        ("nas:/x", False, True),
    ]
    assert served(site) == ()
    assert exports.Exports(Paths(Path("/"))).site_files(site) == {}


def test_a_storage_network_is_preferred_and_only_nodes_networks_may_mount() -> None:
    site = parsed("{home: 'head:/srv/home'}", STORAGE_NET)
    assert str(server_address(site)) == "10.22.0.1"
    assert [str(net) for net in clients(site)] == ["10.22.0.0/16", "10.20.0.0/16"]
    assert [str(net) for net in clients(parsed("{home: 'head:/srv/home'}"))] == ["10.20.0.0/16"]


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ("{home: 'head:/etc'}", "serves no directory of its own system"),
        ("{home: 'head:/'}", "serves no directory of its own system"),
        ("{home: 'head:/srv/../etc'}", "use server:/directory"),
        ("{home: 'head:srv'}", "use server:/directory"),
        ('{home: "head:/srv/a\\"; b"}', "is not allowed here"),
        ("{home: 'na s:/srv'}", "use server:/directory"),
        ("{home: {server: head}}", "storage.home.export is missing"),
        ("{home: 'head:/srv', mounts: [{source: 'head:/srv/data', path: /data}]}", "contain each other"),
        ("{home: 'head:/srv/a', mounts: [{source: 'head:/srv/a/', path: /data}]}", "contain each other"),
        ("{home: 'a:/b', mounts: [{source: 'a:/c', path: /home}]}", "two file systems are mounted there"),
    ],
)
def test_what_must_not_be_served_or_makes_no_sense_is_refused(storage: str, words: str) -> None:
    with pytest.raises(InvalidSite, match=words):
        parsed(storage)


GOOD = """\
EXPORT {
    Export_Id = 1;
    Pseudo = "/srv/home";
    Access_Type = None;
    Squash = Root_Squash;
    FSAL {
        Name = VFS;
    }
    CLIENT {
        Clients = 10.20.0.0/16;
        Access_Type = RW;
        Squash = Root_Squash;
    }
}
"""


def test_our_own_checks_of_exports() -> None:
    exports.refuse_open_doors(GOOD)
    site = parsed("{home: 'head:/srv/home', mounts: [{source: 'head:/srv/d', path: /d, read_only: true}]}")
    (file,) = exports.Exports(Paths(Path("/"))).site_files(site).values()
    exports.refuse_open_doors(file.content.decode())


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("Access_Type = None", "Access_Type = RW", "open to everybody"),
        ("    Access_Type = None;\n", "", "open to everybody"),
        ("        Squash = Root_Squash", "        Squash = No_Root_Squash", "does not squash root"),
        ("    Squash = Root_Squash;\n    FSAL", "    FSAL", "does not squash root"),
        ("        Clients = 10.20.0.0/16;\n", "", "who may mount"),
        ("Access_Type = RW", "Access_Type = MDONLY", "who may mount"),
        ("EXPORT {", "", "no complete EXPORT"),
        ("\n}\n", "\n", "no complete EXPORT"),
    ],
)
def test_an_export_that_is_too_open_is_not_published(before: str, after: str, words: str) -> None:
    assert before in GOOD
    with pytest.raises(PublishFailed, match=words):
        exports.refuse_open_doors(GOOD.replace(before, after, 1))


def test_two_exports_of_one_number_are_not_published() -> None:
    with pytest.raises(PublishFailed, match="same number or name"):
        exports.refuse_open_doors(GOOD * 2)


# Homes.


def test_a_home_is_where_the_head_node_serves_it() -> None:
    paths = Paths(Path("/lab"))
    assert home_directory(parsed("{home: 'head:/srv/home'}"), paths, "alice") == Path("/lab/srv/home/alice")
    assert home_directory(parsed("{home: 'nas:/srv/home'}"), paths, "alice") is None
    assert home_directory(parsed("{}"), paths, "alice") is None
    assert home_on_node("alice") == "/home/alice"


@pytest.mark.parametrize("user", ["", ".", "..", "../root", "a/b", "-rf", "A", "a b", "a\n", "a" * 33, ".ssh"])
def test_a_name_is_one_component(user: str) -> None:
    with pytest.raises(InvalidField):
        home_directory(parsed("{home: 'head:/srv/home'}"), Paths(Path("/")), user)


@pytest.mark.root
def test_a_home_is_made_once_with_its_owner(tmp_path: Path) -> None:
    skeleton = tmp_path / "skel"
    skeleton.mkdir()
    (skeleton / ".profile").write_text("umask 077\n")
    (skeleton / "link").symlink_to("/etc/shadow")
    home = tmp_path / "homes/alice"
    # What a killed attempt left behind.
    (tmp_path / "homes/.alice.new").mkdir(parents=True)
    assert make_home(home, 20_001, 20_002, skeleton)
    for path in (home, home / ".profile"):
        assert (path.stat().st_uid, path.stat().st_gid) == (20_001, 20_002)
    assert home.stat().st_mode & 0o7777 == 0o700
    assert [path.name for path in home.iterdir()] == [".profile"]
    (home / ".profile").write_text("hers\n")
    assert not make_home(home, 20_001, 20_002, skeleton)
    assert (home / ".profile").read_text() == "hers\n"
    assert list(home.parent.iterdir()) == [home]


@pytest.mark.root
def test_somebody_elses_directory_is_never_taken(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "file").touch()
    for name in ("old", "link", "file"):
        with pytest.raises(HeadnodeError):
            make_home(tmp_path / name, 20_001, 20_001)
    assert (tmp_path / "old").stat().st_uid == 0


# Copies on the nodes' own disks.


@pytest.mark.parametrize(
    ("gib", "wanted"), [(None, (10, 7, 3)), (4, (25, 17, 7)), (100, (10, 7, 3)), (400, (5, 3, 1)), (7000, (3, 2, 1))]
)
def test_room_is_made_by_the_size_of_the_volume(gib: int | None, wanted: tuple[int, int, int]) -> None:
    found = limits(gib and gib << 30)
    assert (found.run, found.cull, found.stop) == wanted


@pytest.mark.parametrize("mib", [1, 64, 700, 2048, 1 << 20, 1 << 30])
def test_cachefilesds_own_rules_hold(mib: int) -> None:
    found = limits(mib << 20)
    assert 0 < found.stop < found.cull < found.run < 100


# The package cache.


def test_packages_that_nobody_asks_for_are_forgotten(tmp_path: Path) -> None:
    cache = tmp_path / "var/lib/headnode/packages/debian/pool"
    cache.mkdir(parents=True)
    for name, age in (("old.deb", 200), ("new.deb", 10), ("asked.deb", 10), ("old.txt", 200)):
        for file in (cache / name, cache / f"{name}.head"):
            file.touch()
            os.utime(file, (1e9 - age * 86_400, 1e9 - (200 if name == "asked.deb" else age) * 86_400))
    gone = packagecache.expire(Paths(tmp_path), 180, 1e9)
    assert [path.name for path in gone] == ["old.deb"]
    assert {path.name for path in cache.iterdir()} == {
        "new.deb", "new.deb.head", "asked.deb", "asked.deb.head", "old.txt", "old.txt.head"
    }  # fmt: skip


def test_a_sites_mirror_comes_first_and_may_have_its_own_port() -> None:
    site = sitefile.parse(
        f"{SITE}packages: {{mirror: 'http://mirror.example.org:8080/debian/'}}\n".encode(), "site.yaml"
    )
    assert packagecache.archives(site)[0] == ("site", "http://mirror.example.org:8080/debian")
    assert packagecache.ports(site) == [80, 8080]


@pytest.mark.parametrize("packages", ["{cache: false}", "{proxy: 'http://10.20.0.9:3142'}", "{mirror: head}"])
def test_there_is_no_cache_where_none_is_wanted(packages: str) -> None:
    site = sitefile.parse(f"{SITE}packages: {packages}\n".encode(), "site.yaml")
    assert not packagecache.wanted(site)
    assert packagecache.proxy_for_nodes(site) == site.packages.proxy


@pytest.mark.parametrize("value", ["ftp://x", "http://a b", 'http://a";x', "head:3142", "http://a\\nProxy: b"])
def test_an_address_is_an_address(value: str) -> None:
    with pytest.raises(InvalidSite):
        sitefile.parse(f"{SITE}packages: {{proxy: '{value}'}}\n".encode(), "site.yaml")


# Under systemd.


def test_each_service_may_do_what_it_has_to_and_no_more() -> None:
    units = unit_files(parsed("{home: 'head:/srv/home'}"), Paths(Path("/")), "/usr/bin/headnode")
    nfs, clock, cache = (units[f"headnode-{name}.service"] for name in ("nfs", "chronyd", "package-cache"))
    assert "ExecStartPre=+mkdir -p /srv/home\n" in nfs
    assert "ReadWritePaths=/var/lib/headnode /run/headnode /var/log/headnode -/run/ganesha -/srv/home\n" in nfs
    assert "ProtectHome=no\n" in nfs
    assert "RestrictSUIDSGID=no\n" in nfs
    assert "CAP_SYS_TIME" in clock
    assert "ProtectClock" not in clock
    for unit in (nfs, cache):
        assert "ProtectClock=yes\n" in unit
        assert "CAP_SYS_TIME" not in unit
        assert "CAP_SYS_ADMIN" not in unit
    for unit in (clock, cache):
        assert "ProtectHome=yes\n" in unit
        assert "RestrictSUIDSGID=yes\n" in unit
        assert "ExecStartPre" not in unit


@pytest.mark.program("systemd-analyze")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    units = unit_files(parsed("{home: 'head:/srv/home'}"), Paths(Path("/")), "/bin/true")
    for name, text in units.items():
        (tmp_path / name).write_text(text)
    names = [str(tmp_path / f"headnode-{name}.service") for name in ("nfs", "chronyd", "package-cache")]
    done = run.run(["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", *names], check=False)
    assert "headnode-" not in done.stderr, done.stderr
