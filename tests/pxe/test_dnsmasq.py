"""dnsmasq's configuration, judged by dnsmasq and by us."""

from pathlib import Path

import pytest

from headnode import run, sitefile
from headnode.errors import PublishFailed
from headnode.model import Node
from headnode.paths import Paths
from headnode.site import Site
from pxe import dnsmasq
from pxe.boot import BootScripts
from pxe.dnsmasq import CONFIGS, Dnsmasq
from tests.headnode.test_site import VALID
from tests.support import node_of

CONFIG = CONFIGS[0]


@pytest.fixture
def producer(tmp_path: Path) -> Dnsmasq:
    return Dnsmasq(Paths(tmp_path))


def staged(producer: Dnsmasq, site: Site, tmp_path: Path, before: str = "", after: str = "") -> Path:
    """The configuration as it would be staged, with one thing changed."""
    text = producer.site_files(site)[CONFIG].content.decode()
    assert before in text
    (tmp_path / "new/dnsmasq").mkdir(parents=True)
    (tmp_path / "new" / CONFIG).write_text(text.replace(before, after) if before else text)
    return tmp_path / "new"


SITES = {
    "minimal": VALID,
    "everything": VALID.replace(
        "head: 10.20.0.1\n", "head: 10.20.0.1\n    gateway: 10.20.0.254\n    dns: [9.9.9.9, 1.1.1.1]\n    mtu: 9000\n"
    ),
}


@pytest.mark.program("dnsmasq")
@pytest.mark.parametrize("kind", SITES)
def test_dnsmasq_reads_our_configuration(producer: Dnsmasq, tmp_path: Path, kind: str) -> None:
    site = sitefile.parse(SITES[kind].encode(), "site.yaml")
    assert producer.check(staged(producer, site, tmp_path), tmp_path, [CONFIG]) == []


@pytest.mark.program("dnsmasq")
def test_a_refusal_is_in_dnsmasqs_own_words(producer: Dnsmasq, site: Site, tmp_path: Path) -> None:
    place = staged(producer, site, tmp_path, "leasefile-ro", "leasefile-ro\nno-such-option")
    with pytest.raises(PublishFailed, match=r"dnsmasq refuses dnsmasq/provision.conf: dnsmasq: bad option at line"):
        producer.check(place, tmp_path, [CONFIG])


def test_without_dnsmasq_there_is_a_warning(
    producer: Dnsmasq, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "have", lambda program: False)
    (warning,) = producer.check(staged(producer, site, tmp_path), tmp_path, [CONFIG])
    assert "not checked" in warning


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("interface=hnprov0", "interface=*"),
        ("interface=hnprov0", "interface=hnprov0\ninterface=eth0"),
        ("interface=hnprov0", ""),
        ("bind-interfaces", "#bind-interfaces"),
        ("dhcp-ignore=tag:!known", ""),
    ],
)
def test_a_configuration_that_could_answer_strangers_is_refused(
    producer: Dnsmasq, site: Site, tmp_path: Path, before: str, after: str
) -> None:
    with pytest.raises(PublishFailed):
        producer.check(staged(producer, site, tmp_path, before, after), tmp_path, [CONFIG])


@pytest.mark.parametrize("entry", ["52:54:00:aa:00:01,10.20.1.1,gpu01,set:x", "x,10.20.1.1,gpu01", "id:*,1.1.1.1,a"])
def test_a_host_entry_is_mac_address_name_and_nothing_else(entry: str) -> None:
    with pytest.raises(PublishFailed, match="line 2"):
        dnsmasq.check_host_entries("gpu01", f"# header\n{entry}\n")


def test_host_entries_pass_their_own_check(producer: Dnsmasq, site: Site, tmp_path: Path) -> None:
    files = producer.node_files(site, node_of(1))
    for path, file in files.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(file.content)
    assert producer.check(tmp_path, tmp_path, files) == []
    assert b"52:54:00:aa:00:01,10.20.1.1,gpu01\n" in files["dnsmasq/provision.d/gpu01"].content


def test_a_node_without_an_address_has_no_files(producer: Dnsmasq, site: Site) -> None:
    assert producer.node_files(site, Node("gpu01", "gpu")) == {}
    assert BootScripts().node_files(site, Node("gpu01", "gpu")) == {}


def test_a_nodes_files_are_a_function_of_the_node(producer: Dnsmasq, site: Site) -> None:
    assert producer.node_files(site, node_of(1)) == producer.node_files(site, node_of(1))
    assert not {*producer.node_files(site, node_of(1))} & {*producer.node_files(site, node_of(2))}


@pytest.mark.parametrize(
    ("uefi", "loader"), [("ipxe", "ipxe.efi"), ("snponly", "snponly.efi"), ("shim", "shimx64.efi")]
)
def test_the_sites_choice_is_the_first_stage_of_uefi_machines(
    producer: Dnsmasq, site: Site, uefi: str, loader: str
) -> None:
    chosen = site.model_copy(update={"boot": site.boot.model_copy(update={"uefi": uefi})})
    lines = producer.site_files(chosen)[CONFIG].content.decode().splitlines()
    assert f"dhcp-boot=tag:efi64,tag:!ipxe,{loader}" in lines
    assert f"dhcp-boot=tag:http64,tag:!ipxe,http://10.20.0.1/tftp/{loader}" in lines
