"""What SSH knows the nodes by: one line for all of them, and their own keys for whoever asks."""

from pathlib import Path

import pytest

from headnode.paths import Paths
from headnode.run import run
from headnode.workflows import enroll, hostkeys, publishing
from headnode.workflows.context import Context
from tests.support import headnode, row_of

pytestmark = pytest.mark.program("ssh-keygen")


def known_hosts(context: Context) -> str:
    return (context.paths.published / "ssh/known_hosts").read_text()


def test_one_line_vouches_for_all_nodes_and_a_new_node_changes_nothing(context: Context) -> None:
    enroll.enroll(context, [row_of(1)])
    publishing.publish_changes(context)
    before = known_hosts(context)
    (line,) = [line for line in before.splitlines() if not line.startswith("#")]
    assert line.split()[:2] == ["@cert-authority", "*"]
    assert line.split()[2:4] == hostkeys.ssh_authority(context).public.split()[:2]
    enroll.enroll(context, [row_of(number) for number in range(2, 9)])
    assert "ssh/known_hosts" not in publishing.publish_changes(context).written
    assert known_hosts(context) == before


def test_the_authority_is_made_once_and_never_by_looking(context: Context, root: Path) -> None:
    assert publishing.preview(context) != []
    assert hostkeys.authority_line(context) == "", "a preview makes nothing"
    publishing.publish_changes(context)
    again = Context(Paths(root), "somebody else", "a test")
    assert hostkeys.authority_line(again, make=True) == hostkeys.ssh_authority(context).public
    again.close()


def test_the_command_prints_the_line_or_the_keys_of_nodes(context: Context, root: Path, tmp_path: Path) -> None:
    enroll.enroll(context, [row_of(1), row_of(2)])
    name = context.inventory.names()[0]
    keys = hostkeys.host_keys(context, name)
    printed = headnode(root, "known-hosts")
    publishing.publish_changes(context)
    assert (printed.code, printed.out) == (0, known_hosts(context))
    plain = headnode(root, "known-hosts", "@all")
    assert plain.code == 0
    assert len(plain.out.splitlines()) == len(keys), "a node without keys has no line"
    (tmp_path / "known").write_text(plain.out)
    found = run(["ssh-keygen", "-F", f"{name}.{context.site.domain}", "-f", tmp_path / "known"]).stdout
    assert all(key.public in found for key in keys)
    assert "PRIVATE" not in printed.out + plain.out
    assert headnode(root, "known-hosts", "nobody").code == 2
