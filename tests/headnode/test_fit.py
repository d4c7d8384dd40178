"""A site that was edited after nodes were enrolled."""

from pathlib import Path

import pytest

from headnode.workflows import publishing
from headnode.workflows.context import Context
from tests.support import csv_of, headnode, tree


@pytest.fixture
def served(root: Path, tmp_path: Path) -> Path:
    (tmp_path / "nodes.csv").write_text(csv_of(range(1, 4)))
    assert headnode(root, "enroll", "--from", str(tmp_path / "nodes.csv"), "--yes").code == 0
    return root


def edit(root: Path, before: str, after: str) -> None:
    file = root / "etc/headnode/site.yaml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


EDITS = {
    "profile renamed": ("  gpu:\n", "  gpus:\n", "the profile 'gpu' is not in site.yaml"),
    "network renumbered": ("10.20.", "10.30.", "nodes have addresses outside of it"),
    "head moved onto a node": (
        "head: 10.20.0.1\n    # Nodes get these addresses in order, and keep them.\n    node_range: 10.20.1.1-",
        "head: 10.20.1.1\n    node_range: 10.20.1.2-",
        "10.20.1.1 is the head node's own address",
    ),
    "BMCs renumbered": ("10.21.", "10.31.", "the network 'management' is 10.31.0.0/16"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_site_that_no_longer_fits_its_nodes_is_refused_and_changes_nothing(served: Path, name: str) -> None:
    before, after, words = EDITS[name]
    edit(served, before, after)
    live = tree(served / "var/lib/headnode/published")
    for command in (["site", "check"], ["diff"], ["publish"], ["publish", "--dry-run"]):
        result = headnode(served, *command)
        assert (result.code, result.out) == (2, "")
        assert words in result.err
        assert "gpu0001" in result.err or "gpu[0001-0003]" in result.err
    assert tree(served / "var/lib/headnode/published") == live


def test_a_change_that_cannot_go_live_is_said_to_be_made_all_the_same(served: Path) -> None:
    edit(served, "  gpu:\n", "  gpus:\n")
    result = headnode(served, "set", "gpu0001", "profile=gpus", "--yes")
    assert result.code == 1
    assert "the change is in the inventory and was not published" in result.err
    assert "gpu[0002-0003]" in result.err
    assert headnode(served, "set", "gpu[0002-0003]", "profile=gpus", "--yes").code == 0
    assert headnode(served, "site", "check").code == 0


def test_show_says_that_a_profile_is_gone(served: Path) -> None:
    edit(served, "  gpu:\n", "  gpus:\n")
    assert "there is no such profile in site.yaml" in headnode(served, "show", "gpu0001").out


def test_an_edit_after_the_site_was_read_is_published_with_it(served: Path, context: Context) -> None:
    assert context.site.domain == "demo.lan"
    edit(served, 'domain: "demo.lan"', 'domain: "other.lan"')
    publishing.publish_changes(context)
    assert b"other.lan" in (served / "var/lib/headnode/published/dnsmasq/provision.conf").read_bytes()
    assert headnode(served, "diff").code == 0


def test_an_edit_while_files_are_rendered_is_not_taken_for_published(
    served: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = publishing.render

    def edited_meanwhile(*args: Context, everything: bool) -> publishing.Wanted:
        made = rendered(*args, everything=everything)
        edit(served, 'domain: "demo.lan"', 'domain: "other.lan"')
        return made

    monkeypatch.setattr(publishing, "render", edited_meanwhile)
    publishing.publish_changes(context, full=True)
    monkeypatch.undo()
    assert headnode(served, "publish").code == 0
    assert b"other.lan" in (served / "var/lib/headnode/published/dnsmasq/provision.conf").read_bytes()


@pytest.mark.parametrize(("before", "after"), [("domain:", "domain: ["), ("  gpu:\n", "  gpus:\n")])
def test_a_site_saved_half_does_not_stop_what_is_under_way(
    served: Path, context: Context, before: str, after: str
) -> None:
    """A service has read a good site; a node's next boot must not wait for whoever is editing."""
    live = context.site
    edit(served, before, after)
    publishing.publish_changes(context)
    assert context.site is live


def test_the_site_is_checked_without_its_database(root: Path) -> None:
    edit(root, "bmc:\n", "database: {url: postgresql://nobody@127.0.0.1:1/none}\nbmc:\n")
    result = headnode(root, "site", "check")
    assert result.code == 0
    assert "could not be compared" in result.err


def test_publishing_where_nothing_was_set_up_makes_nothing(tmp_path: Path) -> None:
    result = headnode(tmp_path, "publish")
    assert (result.code, result.err.splitlines()[-1]) == (1, "  hint: run 'headnode init' first")
    assert not [*tmp_path.iterdir()]
