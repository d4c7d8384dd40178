"""People on nodes: real slapd, real sssd, real sshd and PAM, with the very files of a node's overlay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.lab.lab import Lab
from tests.integration.people_site import Machine, PeopleSite, agent_with, key_pair, machine, people_site

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("slapd", "ldapsearch", "sssd", "sshd", "ssh", "getent", "sudo", "nsenter"),
]
PASSWORD = "correct horse battery"


@pytest.fixture
def site(running_lab: Lab, tmp_path: Path) -> Iterator[PeopleSite]:
    root = tmp_path / "root"
    root.mkdir()
    with people_site(running_lab, root) as made:
        yield made


@pytest.fixture
def key(site: PeopleSite, tmp_path: Path) -> Path:
    """Alice's; she is in the directory, in the group vision, with a password."""
    pair = key_pair(tmp_path, "alice")
    site.ok("group", "add", "vision")
    words = ["--name", "Alice Doe", "--ssh-key", f"{pair}.pub", "--groups", "vision", "--password-stdin"]
    site.ok("user", "add", "alice", *words, stdin=f"{PASSWORD}\n".encode())
    return pair


@pytest.fixture
def node(site: PeopleSite, tmp_path: Path) -> Iterator[Machine]:
    place = tmp_path / "machine"
    place.mkdir()
    with machine(site, place) as made:
        yield made


def test_a_persons_whole_life_on_a_node(site: PeopleSite, key: Path, node: Machine) -> None:
    uid = site.context.inventory.numbers()[-1].number
    # Known by name and by number, with the group of her own and the others.
    assert node.getent("passwd", "alice") == f"alice:*:{uid}:{uid}:Alice Doe:/home/alice:/bin/bash"
    assert node.getent("passwd", str(uid)).startswith("alice:")
    assert node.getent("group", "alice").startswith(f"alice:*:{uid}:")
    assert "vision" in node.run("id", "-nG", "alice").stdout.split()
    # In by key, in by password, not by another key or a wrong or empty password.
    said = node.ssh("alice", key=key)
    assert said.stdout.startswith(f"uid={uid}(alice) gid={uid}(alice)"), said.stderr
    assert node.ssh("alice", password=PASSWORD).stdout.startswith(f"uid={uid}(alice)")
    assert node.ssh("alice", key=key_pair(node.place, "mallory")).returncode != 0
    assert node.ssh("alice", password="wrong horse battery").returncode != 0
    assert node.ssh("alice", password="").returncode != 0
    # Locked: refused both ways, at once; unlocked: in again.
    site.ok("user", "lock", "alice")
    assert node.ssh("alice", key=key).returncode != 0
    assert node.ssh("alice", password=PASSWORD).returncode != 0
    site.ok("user", "unlock", "alice")
    assert node.ssh("alice", key=key).returncode == 0
    assert node.ssh("alice", password=PASSWORD).returncode == 0
    # The head node is gone: whoever was here before can still come in.
    site.stop()
    assert node.getent("passwd", "alice").startswith(f"alice:*:{uid}:")
    assert node.ssh("alice", password=PASSWORD).stdout.startswith(f"uid={uid}(alice)")
    assert node.ssh("alice", key=key).stdout.startswith(f"uid={uid}(alice)")
    assert node.ssh("alice", password="wrong horse battery").returncode != 0


def test_sudo_comes_from_the_directory(site: PeopleSite, key: Path, node: Machine) -> None:
    assert "not allowed to run sudo" in node.run("sudo", "-n", "-l", "-U", "alice").stdout
    site.ok("user", "add", "boss", "--groups", "admin")
    assert "(ALL : ALL) ALL" in node.run("sudo", "-n", "-l", "-U", "boss").stdout


def test_a_profile_lets_in_only_its_groups(site: PeopleSite, key: Path, tmp_path: Path) -> None:
    boss = key_pair(tmp_path, "boss")
    site.ok("user", "add", "boss", "--groups", "admin", "--ssh-key", f"{boss}.pub")
    place = tmp_path / "machine"
    place.mkdir()
    with machine(site, place, "closed") as node:
        assert node.getent("passwd", "alice").startswith("alice:")
        assert node.ssh("alice", key=key).returncode != 0
        assert node.ssh("alice", password=PASSWORD).returncode != 0
        assert node.ssh("boss", key=boss).returncode == 0


def test_an_audit_asks_the_nodes(site: PeopleSite, key: Path, node: Machine) -> None:
    """Over SSH, believing only the host key that the site has certified."""
    with site.head.inside(), agent_with(site.root_key):
        clean = site.cli("user", "audit", "gpu01", "-o", "json")
        assert (clean.code, clean.out.strip()) == (0, "[]"), clean
        accounts = node.place / "passwd"
        with accounts.open("a") as stream:
            stream.write("alice:x:1001:1001::/home/alice:/bin/sh\nimpostor:x:1002:1002::/:/bin/sh\n")
        found = site.cli("user", "audit", "gpu01")
        assert found.code == 1
        assert "gpu01  the local account alice (UID 1001) hides the directory's" in found.out
        assert "gpu01  the local account impostor has UID 1002" in found.out
        node.processes[1].stop()
        silent = site.cli("user", "audit", "gpu01")
        assert (silent.code, "gpu01 could not be asked" in silent.err) == (1, True), silent


def test_another_authority_is_not_believed(site: PeopleSite, key: Path, tmp_path: Path) -> None:
    """A server that is not ours, at our address: sssd takes nothing from it."""
    place = tmp_path / "machine"
    place.mkdir()
    with machine(site, place) as node:
        other = place / "ca/headnode.crt"
        run_openssl = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=other"]
        assert node.run(*run_openssl, "-keyout", "/tmp/people-other.key", "-out", str(other)).returncode == 0
        node.processes[0].stop()
        node.processes[0] = site.lab.start(node.network, "sssd2", node.inside(["sssd", "-i", "--logger=stderr"]))
        assert node.getent("passwd", "alice") == ""
