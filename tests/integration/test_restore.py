"""Disaster: a head node with people in its directory is backed up while it runs, lost, and restored somewhere else."""

import json
import os
import shutil
from pathlib import Path

import pytest

from headnode.lab.lab import lab
from headnode.workflows import enroll, hostkeys
from tests.integration.people_site import BASE, PeopleSite, people_site
from tests.support import row

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    pytest.mark.timeout(240),
    pytest.mark.program("slapd", "slapcat", "slapadd", "ldapwhoami", "ldapsearch"),
]
PASSWORD = "correct horse battery"


def everything(site: PeopleSite) -> dict[str, object]:
    """Nodes, people, groups, numbers, host keys and the CA: what has to be the same."""
    context = site.context
    return {
        "nodes": json.loads(site.ok("nodes", "-o", "json").out),
        "people": json.loads(site.ok("user", "list", "-o", "json").out),
        "groups": json.loads(site.ok("group", "list", "-o", "json").out),
        "numbers": context.inventory.numbers(),
        "host keys": hostkeys.host_keys(context, "gpu01"),
        "known hosts": site.ok("known-hosts").out,
        "ca": (site.paths.ca / "ca.crt").read_bytes(),
        "hash": site.head.run(["slapcat", "-f", site.paths.published / "slapd/slapd.conf"]).stdout.split("\n\n"),
    }


def test_a_lost_head_node_comes_back_with_its_people(tmp_path: Path) -> None:
    key, archive = tmp_path / "key", tmp_path / "cluster.hnb"
    with lab(f"r{os.getpid():x}", logs=tmp_path) as running, people_site(running, tmp_path / "old") as site:
        site.ok("group", "add", "vision")
        words = ("--name", "Alice Doe", "--email", "alice@example.org", "--groups", "vision", "--password-stdin")
        site.ok("user", "add", "alice", *words, stdin=f"{PASSWORD}\n".encode())
        site.ok("user", "add", "bob", "--uid", "30123")
        site.ok("user", "remove", "bob", "--yes")
        made = enroll.enroll(site.context, [row(name="gpu01", mac="52:54:00:aa:00:01", profile="open")])
        assert made.problems == []
        before = everything(site)
        site.ok("backup", "key", str(key))
        assert "with its directory" in site.ok("backup", str(archive), "--key-file", str(key)).err
        # One that runs is not overwritten, whatever is said.
        assert site.cli("restore", str(archive), "--key-file", str(key), "--yes").code == 2
        site.stop()
        site.context.close()
        shutil.rmtree(site.root)

        other = PeopleSite(running, tmp_path / "new", site.head, site.wire, site.root_key)
        other.root.mkdir()
        other.ok("restore", str(archive), "--key-file", str(key), "--yes")
        other.start()
        assert everything(other) == before
        alice = f"uid=alice,ou=people,{BASE}"
        assert other.ldap("ldapwhoami", who=alice, password=PASSWORD).stdout == f"dn:{alice}\n"
        # Her number is hers for ever, and so is that of somebody who has left.
        taken = other.cli("user", "add", "carol", "--uid", "30123")
        assert taken.code == 2
        assert "bob" in taken.err
        other.stop()
        other.context.close()
    content = archive.read_bytes()
    for text in (b"alice", b"ARGON2", b"uid=", b"gpu01"):
        assert text not in content
