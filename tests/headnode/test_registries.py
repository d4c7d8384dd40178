"""Registries with a certificate of their own: from site.yaml and a file on the head node to Docker's on a node."""

from pathlib import Path

import pytest

from headnode.errors import HeadnodeError
from headnode.model import Intent
from headnode.workflows import deploy, planning
from headnode.workflows.context import Context
from tests.support import headnode

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nZm9yIHRlc3Rz\n-----END CERTIFICATE-----\n"


@pytest.fixture
def named(root: Path) -> Path:
    """The file that site.yaml names for a registry; it is not there yet."""
    site = root / "etc/headnode/site.yaml"
    site.write_text(site.read_text() + "\npackages: {registries: {'registry.lan:5000': /etc/headnode/registry.pem}}\n")
    assert headnode(root, "enroll", "gpu01", "--mac", "52:54:00:aa:00:01", "--profile", "gpu", "--yes").code == 0
    return root / "etc/headnode/registry.pem"


def test_the_file_is_where_docker_looks_for_it(root: Path, named: Path) -> None:
    named.write_text(CERTIFICATE)
    shown = headnode(root, "render", "gpu01", "--overlay").out
    assert f"==> /etc/docker/certs.d/registry.lan:5000/ca.crt <== 0644 root:root\n{CERTIFICATE}" in shown


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read: No such file"), ("oops", "holds no certificate")]
)
def test_a_file_that_is_none_is_named(root: Path, named: Path, content: str | None, words: str) -> None:
    if content is not None:
        named.write_text(content)
    found = headnode(root, "render", "gpu01", "--overlay")
    assert found.code != 0
    assert "packages.registries.registry.lan:5000 is /etc/headnode/registry.pem" in found.err
    assert words in found.err


@pytest.mark.parametrize("host", ["h:99999", "h:65536", "h:0", "h:", "h:1:2", ":5000", "a b"])
def test_a_registry_that_no_machine_can_be_is_refused(root: Path, host: str) -> None:
    site = root / "etc/headnode/site.yaml"
    site.write_text(site.read_text() + f"\npackages: {{registries: {{'{host}': /etc/headnode/registry.pem}}}}\n")
    found = headnode(root, "publish", "--dry-run")
    assert found.code == 2
    assert "packages.registries" in found.err
    assert host in found.err


def test_the_last_port_is_one(root: Path) -> None:
    site = root / "etc/headnode/site.yaml"
    site.write_text(site.read_text() + "\npackages: {registries: {'h:65535': /etc/headnode/registry.pem}}\n")
    assert headnode(root, "publish", "--dry-run").code == 0


def test_it_is_missed_before_a_disk_is_erased(root: Path, named: Path) -> None:
    for words in (["deploy", "gpu01", "--dry-run"], ["deploy", "gpu01", "--yes"]):
        found = headnode(root, *words)
        assert found.code != 0
        assert "packages.registries.registry.lan:5000 is /etc/headnode/registry.pem" in found.err
    assert "packages.registries.registry.lan:5000 is" in headnode(root, "check").out


def test_a_rescue_system_starts_without_it(named: Path, context: Context) -> None:
    (node,) = context.inventory.nodes(["gpu01"])
    (work,) = deploy.begin(context, ["gpu01"], Intent.RESCUE)
    assert planning.overlay_for(context, node, work)["files"]
    with pytest.raises(HeadnodeError, match="which cannot be read"):
        planning.node_files(context, node)
