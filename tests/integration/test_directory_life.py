"""The directory as one of the head node's services: started, restarted, changed with the site, and never orphaned."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.directory.server import listening, socket_url
from headnode.lab.lab import Lab
from headnode.run import run
from headnode.services import pid_in
from tests.integration.boot import SITE, Head, eventually, head_node

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.program("ip", "dnsmasq", "nginx", "slapd", "ldapsearch"),
]
BASE = "dc=demo,dc=lan"


@pytest.fixture
def head(running_lab: Lab, tmp_path: Path) -> Iterator[Head]:
    root = tmp_path / "root"
    root.mkdir()
    with head_node(running_lab, root, SITE) as made:
        yield made


def entries(head: Head, condition: str) -> str:
    argv = ["ldapsearch", "-LLL", "-Q", "-Y", "EXTERNAL", "-H", socket_url(head.paths), "-b", BASE, condition]
    return run(argv, check=False).stdout


def slapd(head: Head) -> int:
    return pid_in(head.paths.runtime / "slapd/slapd.pid") or 0


def test_a_directorys_life(head: Head) -> None:
    process = head.up()
    # Before anybody has asked for anything, what nodes look for is there.
    eventually(lambda: "gidNumber: 20000" in entries(head, "(cn=admin)"))
    head.headnode("user", "add", "alice", "--groups", "admin")
    # Killed, it is back by itself, and nothing is lost.
    before = slapd(head)
    os.kill(before, signal.SIGKILL)
    eventually(lambda: slapd(head) not in (0, before) and listening(head.paths))
    assert "uid: alice" in entries(head, "(uid=alice)")
    # A site that wants something else of it gets it, with everybody still there.
    before = slapd(head)
    head.paths.site_file.write_text(
        head.paths.site_file.read_text() + "access: {sudo_group: admin}\ndirectory: {admin_group: boss}\n"
    )
    head.headnode("publish")
    eventually(lambda: slapd(head) not in (0, before) and listening(head.paths))
    eventually(lambda: "sudoUser: %admin" in entries(head, "(objectClass=sudoRole)"))
    eventually(lambda: "cn: boss" in entries(head, "(cn=boss)"))
    assert "cn=boss,ou=groups" in (head.paths.published / "slapd/slapd.conf").read_text()
    assert "uid: alice" in entries(head, "(uid=alice)")
    # The whole head node dies at once; the next one takes over the database and the ports.
    last = slapd(head)
    os.kill(process.pid, signal.SIGKILL)
    head.up()
    eventually(lambda: slapd(head) not in (0, last) and listening(head.paths))
    assert "uid: alice" in entries(head, "(uid=alice)")
    assert "alice" in head.headnode("user", "list", "-o", "name").stdout
