"""Clock, files and packages: the real servers of a head node, and real clients on its networks and beside them."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode import ntp, packagecache
from headnode.effective import effective
from headnode.homes import home_directory, make_home
from headnode.lab.lab import lab
from headnode.lab.net import Namespace
from headnode.lab.process import Process
from headnode.run import Completed
from headnode.services import command_of, pid_in
from images.overlay import Secrets, overlay
from tests.integration.boot import HEAD, SITE, Head, eventually, head_node, own_address
from tests.support import mac

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.timeout(240),
    pytest.mark.program(
        "ip", "dnsmasq", "nginx", "chronyd", "chronyc", "ganesha.nfsd", "nfs-ls", "apt-cacher-ng", "apt-ftparchive"
    ),
]
ALICE, OFFICE, ARCHIVE = 20_001, "192.168.7.1", "192.168.7.2"
EXTRA = f"""
time: {{servers: []}}
packages: {{mirror: "http://{ARCHIVE}:8000/debian"}}
storage:
  home: {{server: head, export: /srv/home}}
  mounts:
    - {{source: "head:/srv/datasets", path: /datasets, read_only: true}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("services")


@pytest.fixture(scope="module")
def head(place: Path) -> Iterator[Head]:
    root = place / "root"
    root.mkdir()
    with lab(f"c{os.getpid():x}", logs=place) as made, head_node(made, root, SITE + EXTRA) as found:
        # Its peers are found by exported directories that are there from the beginning.
        home = home_directory(found.context.site, found.paths, "alice")
        assert home is not None
        assert make_home(home, ALICE, ALICE)
        found.up()
        yield found


@pytest.fixture(scope="module")
def stranger(head: Head) -> Namespace:
    """A machine on a network that reaches the head node and is not the cluster's."""
    host = head.lab.host("stranger")
    head.office.attach(host, "eth0", address=f"{ARCHIVE}/24")
    host.ip(f"route add 10.20.0.0/16 via {OFFICE}")
    return host


def service_pid(head: Head, name: str) -> int:
    return pid_in(head.paths.runtime / name) or 0


# The clock.


def time_by_chronyd(place: Path, host: Namespace, server: str) -> Completed:
    """What a chronyd that starts here, as on any machine, makes of the head node; it sets nothing."""
    config = place / f"client-{host.name}.conf"
    config.write_text(f"server {server} iburst\ncmdport 0\npidfile {place}/client-{host.name}.pid\n")
    return host.run(["chronyd", "-Q", "-t", "6", "-u", "root", "-f", config], check=False)


def test_the_cluster_gets_time_and_nobody_else_does(head: Head, stranger: Namespace, place: Path) -> None:
    answered = time_by_chronyd(place, head.nodes, HEAD)
    assert answered.returncode == 0, answered.stderr
    offset = re.search(r"System clock wrong by (-?[0-9.]+) seconds", answered.stderr)
    assert offset is not None
    assert abs(float(offset[1])) < 0.1
    for address in (OFFICE, HEAD):
        assert time_by_chronyd(place, stranger, address).returncode != 0
        with stranger.inside():
            assert ntp.ask([address], timeout=0.5) == {}
    # The way there is open: it is chronyd that says nothing.
    assert stranger.run(["curl", "-s", "-m", "5", f"http://{HEAD}/boot"]).stdout


def test_a_lab_leaves_the_machines_clock_alone(head: Head) -> None:
    assert "-x" in command_of(service_pid(head, "chrony/chronyd.pid")).split("\0")


def test_headnode_check_looks_at_them(head: Head) -> None:
    found = {row["name"]: row["result"] for row in json.loads(head.headnode("check", "-o", "json", check=False).stdout)}
    for name in ("chronyd", "nfs", "package-cache"):
        assert found[f"service {name}"] == "ok"
    for program in ("chronyd", "ganesha.nfsd", "apt-cacher-ng"):
        assert found[f"program {program}"] == "ok"


def test_commands_to_chronyd_need_its_socket(head: Head) -> None:
    refused = head.nodes.run(["chronyc", "-h", HEAD, "tracking"], check=False)
    assert refused.returncode != 0
    assert (head.paths.runtime / "chrony").stat().st_mode & 0o007 == 0


def node_clock(head: Head, place: Path, name: str) -> Process:
    """The node's own chronyd, with the file that the node is given, but for its places."""
    node = head.context.inventory.node(name)
    assert node is not None
    settings = {key: found.value for key, found in effective(head.context.site, node).items()}
    # The layout is of no concern here.
    site = head.context.site.model_copy(update={"layouts": shipped_layouts()})
    text = overlay(site, node, settings, Secrets())["/etc/chrony/chrony.conf"].content.decode()
    config = place / "node-chrony.conf"
    config.write_text(text.replace("/var/lib/chrony", str(place)).replace("/var/log/chrony", str(place))
                      + f"bindcmdaddress /\npidfile {place}/node-chrony.pid\n")  # fmt: skip
    return head.lab.start(head.nodes, "node-chrony", ["chronyd", "-d", "-x", "-u", "root", "-f", config])


def shipped_layouts() -> dict[str, object]:
    from tests.images.support import shipped

    return dict(shipped().layouts)


def test_headnode_time_measures_every_node(head: Head, place: Path) -> None:
    address = head.enroll("gpu01", mac=mac(1))
    head.enroll("gpu02", mac=mac(2))
    own_address(head, address)
    chronyd = node_clock(head, place, "gpu01")

    def measured() -> list[dict[str, object]]:
        return list(json.loads(head.headnode("time", "-o", "json", check=False).stdout))

    try:
        eventually(lambda: {row["name"]: row["state"] for row in measured()}["gpu01"] == "ok", 40)
        rows = {row["name"]: row for row in measured()}
    finally:
        chronyd.stop()
    assert rows["head"]["stratum"] == 8
    assert rows["head"]["source"] == "chronyd, from its own clock"
    assert rows["gpu01"]["stratum"] == 9
    assert abs(float(str(rows["gpu01"]["offset_ms"]))) < 100
    assert rows["gpu02"] == {
        "name": "gpu02", "state": "enrolled", "offset_ms": None, "stratum": None, "age_seconds": None,
        "source": "never heard",
    }  # fmt: skip


def test_a_killed_clock_is_back(head: Head) -> None:
    before = service_pid(head, "chrony/chronyd.pid")
    os.kill(before, 9)
    eventually(lambda: service_pid(head, "chrony/chronyd.pid") not in (0, before))
    with head.nodes.inside():
        eventually(lambda: ntp.ask([HEAD], timeout=0.5))


# Files.


def url(path: str, user: int, server: str = HEAD) -> str:
    return f"nfs://{server}{path}?version=4&uid={user}&gid={user}"


def names(head: Head, path: str) -> set[str]:
    """What a node sees there; listing needs no grace, so this is quick after a restart too."""
    said = head.nodes.run(["nfs-ls", url(path, ALICE)], check=False).stdout
    return {line.split()[-1] for line in said.splitlines()}


def test_alice_has_her_files_and_root_is_nobody(head: Head, place: Path) -> None:
    home = head.root / "srv/home/alice"
    assert home.stat().st_mode & 0o7777 == 0o700
    (place / "note").write_text("hers\n")
    head.nodes.run(["nfs-cp", place / "note", url("/srv/home/alice/note", ALICE)])
    assert (home / "note").stat().st_uid == ALICE
    listed = head.nodes.run(["nfs-ls", url("/srv/home", 0)]).stdout
    assert str(ALICE) in listed
    assert head.nodes.run(["nfs-cat", url("/srv/home/alice/note", ALICE)]).stdout == "hers\n"
    # Root of a node, and anybody else, gets nothing of hers and cannot become her.
    for other in (0, ALICE + 1):
        assert head.nodes.run(["nfs-cat", url("/srv/home/alice/note", other)], check=False).returncode != 0
        assert head.nodes.run(["nfs-cp", place / "note", url("/srv/home/alice/x", other)], check=False).returncode != 0
    shared = head.root / "srv/home/shared"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o777)
    head.nodes.run(["nfs-cp", place / "note", url("/srv/home/shared/root", 0)])
    assert (shared / "root").stat().st_uid == 65_534


def test_a_read_only_share_is_refused_by_the_server(head: Head, place: Path) -> None:
    datasets = head.root / "srv/datasets"
    datasets.chmod(0o777)
    (datasets / "set").write_text("data\n")
    (place / "note").write_text("hers\n")
    assert head.nodes.run(["nfs-cat", url("/srv/datasets/set", ALICE)]).stdout == "data\n"
    assert head.nodes.run(["nfs-cp", place / "note", url("/srv/datasets/x", ALICE)], check=False).returncode != 0
    assert not (datasets / "x").exists()


def test_other_networks_mount_nothing(head: Head, stranger: Namespace) -> None:
    for address in (OFFICE, HEAD):
        done = stranger.run(["nfs-ls", url("/srv/datasets", ALICE, address)], check=False, timeout=60)
        assert done.returncode != 0
        assert "set" not in done.stdout


def test_a_killed_file_server_is_back_with_everything(head: Head) -> None:
    before = service_pid(head, "ganesha/ganesha.pid")
    os.kill(before, 9)
    eventually(lambda: service_pid(head, "ganesha/ganesha.pid") not in (0, before))
    eventually(lambda: names(head, "/srv/datasets") == {"set"}, 60)
    assert names(head, "/srv/home") == {"alice", "shared"}


# Packages.


@pytest.fixture(scope="module")
def archive(head: Head, stranger: Namespace, place: Path) -> Iterator[Process]:
    """A small archive somewhere outside."""
    debian = place / "archive/debian"
    tree = place / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: hn-test\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: a test\n"
    )
    pool, index = debian / "pool", debian / "dists/bookworm/main/binary-amd64"
    pool.mkdir(parents=True)
    index.mkdir(parents=True)
    (place / "archive/secret").write_text("not a package\n")
    head.host.run(["dpkg-deb", "--build", "--root-owner-group", tree, pool / "hn-test_1.0_all.deb"])
    packages = head.host.run(["sh", "-c", f"cd {debian} && apt-ftparchive packages pool"]).stdout
    (index / "Packages").write_text(packages)
    release = head.host.run(["apt-ftparchive", "-o", "APT::FTPArchive::Release::Codename=bookworm", "release",
                             debian / "dists/bookworm"]).stdout  # fmt: skip
    (debian / "dists/bookworm/Release").write_text(release)
    server = head.lab.start(
        stranger, "archive", ["python3", "-m", "http.server", "8000", "--directory", place / "archive"]
    )
    server.wait_listening("tcp", 8000)
    yield server
    server.stop()


def apt(head: Head, place: Path, *words: str) -> Completed:
    """apt of a node that reaches the head node and nothing else, with nothing left from before."""
    state = place / "apt"
    shutil.rmtree(state, ignore_errors=True)
    for directory in ("lists/partial", "cache/archives/partial", "out", "dpkg"):
        (state / directory).mkdir(parents=True)
    (state / "dpkg/status").touch()
    (state / "sources.list").write_text(f"deb [trusted=yes] http://{ARCHIVE}:8000/debian bookworm main\n")
    settings = {
        "Dir::State::Lists": state / "lists", "Dir::Cache": state / "cache", "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::status": state / "dpkg/status", "Dir::Etc::sourcelist": state / "sources.list",
        "APT::Sandbox::User": "root",
        "Acquire::http::Proxy": packagecache.proxy_for_nodes(head.context.site), "Dir::Etc::parts": "/dev/null",
        "Acquire::Languages": "none", "Acquire::Retries": "0", "Dir::Etc::main": "/dev/null",
    }  # fmt: skip
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    head.nodes.run(["apt-get", *options, "update"])
    return head.nodes.run(["sh", "-c", 'cd "$0" && exec "$@"', state / "out", "apt-get", *options, *words], check=False)


def test_nodes_without_a_way_out_install_through_the_cache(head: Head, archive: Process, place: Path) -> None:
    assert head.nodes.run(["curl", "-sm", "2", f"http://{ARCHIVE}:8000/"], check=False).returncode != 0
    first = apt(head, place, "download", "hn-test")
    assert first.returncode == 0, first.stderr
    asked = archive.log.read_text().count("hn-test_1.0_all.deb")
    assert asked == 1
    again = apt(head, place, "download", "hn-test")
    assert again.returncode == 0, again.stderr
    assert (place / "apt/out/hn-test_1.0_all.deb").exists()
    assert archive.log.read_text().count("hn-test_1.0_all.deb") == asked, "the second time it came from the cache"


def test_the_cache_is_no_way_to_anything_else(head: Head, archive: Process) -> None:
    for wanted in (f"http://{ARCHIVE}:8000/secret", "http://127.0.0.1:9623/metrics", f"http://{HEAD}/boot"):
        words = ["curl", "-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", "-x", f"http://{HEAD}:3142", wanted]
        assert head.nodes.run(words, check=False).stdout == "403"


def test_what_changes_in_the_site_takes_effect(head: Head) -> None:
    """Last, because every service starts anew with it."""
    before = {name: service_pid(head, name) for name in ("chrony/chronyd.pid", "ganesha/ganesha.pid")}
    text = head.paths.site_file.read_text()
    head.paths.site_file.write_text(
        text.replace("/srv/datasets", "/srv/models").replace("servers: []", "servers: [a.test]")
    )
    (head.root / "srv/models").mkdir()
    (head.root / "srv/models/m").touch()
    head.headnode("publish")
    for name, pid in before.items():
        eventually(lambda name=name, pid=pid: service_pid(head, name) not in (0, pid))  # type: ignore[misc]
    eventually(lambda: names(head, "/srv/models") == {"m"}, 60)
