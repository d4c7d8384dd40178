"""headnode init: the first site.yaml, and never the interface to the rest of the world."""

import os
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

import pytest
from cryptography import x509

from headnode import authority, files, machine, sitefile, vault
from headnode.errors import HeadnodeError, InvalidField, InvalidInput
from headnode.inventory import Inventory
from headnode.machine import Interface
from headnode.paths import Paths
from headnode.workflows import init
from headnode.workflows.init import Proposal, propose
from tests.conftest import GIVEN
from tests.support import headnode, tree

OUTSIDE = Interface("eth0", "", True, True, True, True, (IPv4Interface("192.0.2.7/24"),))
FREE = Interface("eth1", "", True, True, False, True)
DARK = Interface("eth2", "", True, False, False, True)
BRIDGE = Interface("docker0", "", True, True, False, False, (IPv4Interface("10.20.5.1/24"),))

FLAGS = (
    "init", "--yes", "--cluster", "demo", "--domain", "demo.lan",
    "--provision-interface", "hnprov0", "--provision", "10.20.0.0/16",
    "--management-interface", "hnmgmt0", "--management", "10.21.0.0/16",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "interfaces", lambda: [OUTSIDE, DARK, FREE, BRIDGE])


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    return tmp_path / "empty"


def test_the_command_of_the_manual_works_on_an_empty_root(empty: Path) -> None:
    done = headnode(empty, *FLAGS)
    assert done.code == 0, done.err
    site = sitefile.load(Paths(empty).site_file)
    assert {"gpu", "cpu", "login"} <= set(site.profiles)
    assert str(site.provision.cidr) == "10.20.0.0/16"
    assert site.management is not None
    assert headnode(empty, "nodes", "-o", "json").out == "[]\n"


def test_an_interface_that_does_not_exist_is_a_warning(empty: Path) -> None:
    done = headnode(empty, *FLAGS)
    assert "warning: the interface hnprov0 does not exist yet" in done.err
    assert "warning: the interface hnmgmt0 does not exist yet" in done.err


def test_choices_are_explained_and_the_way_out_is_never_proposed() -> None:
    made = propose(Proposal(), [OUTSIDE, DARK, FREE, BRIDGE])
    assert (made.provision_interface, made.management_interface) == ("eth1", "eth2")
    assert made.reasons == (
        "eth0 carries the default route, so it is never proposed for nodes.",
        "eth1 is free and does not lead outside: proposed as provision network.",
        "eth2 is free too: proposed as management network.",
    )


@pytest.mark.parametrize("found", [[OUTSIDE], [OUTSIDE, BRIDGE], []], ids=["outside", "virtual", "none"])
def test_nothing_is_proposed_when_nothing_is_free(found: list[Interface]) -> None:
    made = propose(Proposal(), found)
    assert made.provision_interface == ""
    with pytest.raises(InvalidInput, match="no interface is free"):
        init.refuse_unsafe(made, found)


@pytest.mark.parametrize("flag", ["--provision-interface", "--management-interface"])
def test_the_way_out_is_refused_when_it_is_asked_for(empty: Path, flag: str) -> None:
    words = list(FLAGS)
    words[words.index(flag) + 1] = "eth0"
    done = headnode(empty, *words)
    assert done.code == 2
    assert f"{flag.removeprefix('--')} is 'eth0'; it carries the default route" in done.err
    assert not empty.exists()


def test_a_network_that_is_in_use_elsewhere_is_a_warning() -> None:
    assert "10.20.0.0/16 overlaps 10.20.5.0/24 on docker0" in propose(Proposal(), [FREE, BRIDGE]).warnings


def test_an_existing_site_is_not_overwritten(root: Path) -> None:
    before = tree(root)
    done = headnode(root, *FLAGS)
    assert done.code == 2
    assert "exists already and is not overwritten" in done.err
    assert tree(root) == before


def test_a_site_that_appears_meanwhile_is_not_overwritten(empty: Path) -> None:
    path = empty / "site.yaml"
    empty.mkdir()
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        files.write_new(path, b"theirs", 0o640)
    assert path.read_text() == "mine"
    assert [found.name for found in empty.iterdir()] == ["site.yaml"]


def test_secrets_are_for_root_only(root: Path) -> None:
    paths = Paths(root)
    assert paths.secret_key.stat().st_mode & 0o777 == 0o600
    assert (paths.ca / "ca.key").stat().st_mode & 0o777 == 0o600
    for file in (paths.site_file, paths.database):
        assert file.stat().st_mode & 0o777 == 0o640
    assert not list(root.rglob("*.draft"))


def test_the_authority_may_sign_and_is_named_after_the_cluster(root: Path) -> None:
    certificate = x509.load_pem_x509_certificate((Paths(root).ca / "ca.crt").read_bytes())
    assert "Headnode CA of demo" in certificate.subject.rfc4514_string()
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


STEPS = [
    (vault, "create_key"), (os, "fsync"), (os, "link"), (authority, "create"), (authority, "write_whole"),
    (Inventory, "open"), (init, "write_new"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "function"), STEPS, ids=[step[1] for step in STEPS])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("calls", [0, 1])
def test_an_interrupted_init_can_be_run_again(
    empty: Path, monkeypatch: pytest.MonkeyPatch, module: object, function: str, after: bool, calls: int
) -> None:
    """Interrupted before or after the first or second call of each step."""
    original = getattr(module, function)
    left = [calls]

    def dies(*args: object) -> object:
        left[0] -= 1
        if left[0] >= 0:
            return original(*args)
        if after:
            original(*args)
        raise KeyboardInterrupt

    paths = Paths(empty)
    with monkeypatch.context() as patch:
        patch.setattr(module, function, dies)
        try:
            init.create(paths, GIVEN)
        except KeyboardInterrupt:
            if paths.site_file.exists():  # the very last step was done
                paths.site_file.unlink()
        else:
            assert left[0] >= 0
            paths.site_file.unlink()
    init.create(paths, GIVEN)
    assert vault.unseal(vault.seal("x", paths.secret_key), paths.secret_key) == "x"
    assert x509.load_pem_x509_certificate((paths.ca / "ca.crt").read_bytes())
    assert sitefile.load(paths.site_file).cluster == "demo"


@pytest.mark.parametrize("prefix", range(8, 29))
def test_networks_of_every_size_are_shared_out_without_overlap(prefix: int) -> None:
    network = IPv4Network(f"10.0.0.0/{prefix}")
    text = init.site_text(replace(GIVEN, provision=network, management=IPv4Network("172.16.0.0/24")))
    site = sitefile.parse(text.encode(), "site.yaml")
    assert site.provision.node_range is not None
    assert len(site.provision.node_range) >= network.num_addresses // 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--provision", "10.20.0.0/29"], "at least 16 addresses"),
        (["--provision", "10.20.0.1/16"], "use 10.20.0.0/16"),
        (["--provision", "everything"], "CIDR form"),
        (["--management", "10.20.1.0/24"], "overlaps the provision network"),
        (["--management", "10.21.0.0/31"], "use a larger network"),
        (["--cluster", "De mo"], "cluster is 'De mo'"),
        (["--cluster", ""], "give the cluster a name"),
        (["--domain", "nodots"], "domain is 'nodots'"),
        (["--domain", ""], "--domain"),
        (["--dns", "dns.example.org"], "use an IPv4 address"),
        (["--provision-interface", "a b"], "name of a network interface"),
        (["--management-interface", "hnprov0"], "is on that interface too"),
        (["--cluster", "x\ny"], r"cluster is 'x\ny'"),
    ],
)
def test_answers_that_cannot_be_are_refused_and_nothing_is_written(empty: Path, flags: list[str], words: str) -> None:
    done = headnode(empty, *FLAGS, *flags)
    assert done.code == 2, done.err
    assert words in done.err
    assert not Paths(empty).site_file.exists()


@pytest.mark.parametrize("name", ["on", "no", "null", "0x1f", "2001-01-01", "1e5"])
def test_names_that_yaml_would_take_for_something_else_stay_names(empty: Path, name: str) -> None:
    done = headnode(empty, *FLAGS, "--cluster", name, "--provision-interface", name)
    assert done.code == 0, done.err
    site = sitefile.load(Paths(empty).site_file)
    assert (site.cluster, site.provision.interface) == (name, name)


def test_a_person_is_asked_and_proposals_are_the_defaults(empty: Path) -> None:
    done = headnode(empty, "init", typed=b"lab\nlab.test\n\n\n\n\ny\n")
    assert done.code == 0, done.err
    assert "eth1 is free and does not lead outside" in done.err
    site = sitefile.load(Paths(empty).site_file)
    assert (site.cluster, site.domain, site.provision.interface) == ("lab", "lab.test", "eth1")


def test_a_person_cannot_choose_the_way_out_either(empty: Path) -> None:
    done = headnode(empty, "init", typed=b"lab\nlab.test\neth0\neth1\n\n\n\ny\n")
    assert done.code == 0
    assert "carries the default route, so DHCP there" in done.err
    assert sitefile.load(Paths(empty).site_file).provision.interface == "eth1"


def test_a_person_may_say_no_or_go_away(empty: Path) -> None:
    assert headnode(empty, "init", typed=b"lab\nlab.test\n\n\n\n\nn\n").code == 130
    assert headnode(empty, "init", typed=b"lab\n").code == 130
    assert not empty.exists()


def test_a_wrong_answer_is_asked_for_again(empty: Path) -> None:
    typed = ["My Lab", "lab", "lab", "lab.test", "eth 1", "eth1", "10.30.0.1/16", "10.30.0.0/16", "-", "y"]
    done = headnode(empty, "init", typed="\n".join([*typed, ""]).encode())
    assert done.code == 0, done.err
    assert "use 10.30.0.0/16" in done.err
    site = sitefile.load(Paths(empty).site_file)
    assert (site.cluster, site.provision.interface, str(site.provision.cidr)) == ("lab", "eth1", "10.30.0.0/16")
    assert site.management is None


def test_a_script_can_do_without_a_management_network(empty: Path) -> None:
    done = headnode(empty, *FLAGS, "--management-interface", "-")
    assert done.code == 0
    assert sitefile.load(Paths(empty).site_file).management is None


def test_a_script_has_to_say_yes(empty: Path) -> None:
    done = headnode(empty, *[word for word in FLAGS if word != "--yes"])
    assert done.code == 2
    assert "add --yes" in done.err
    assert not empty.exists()


def test_a_root_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("a file in the way")
    done = headnode(tmp_path, *FLAGS)
    assert done.code == 1
    assert "cannot be written: " in done.err


def test_a_root_with_odd_characters_in_its_path_works(tmp_path: Path) -> None:
    odd = tmp_path / "a? b%20#c"
    assert headnode(odd, *FLAGS).code == 0
    assert Paths(odd).database.exists()
    assert headnode(odd, "nodes", "-o", "json").out == "[]\n"


def test_this_machine_can_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = machine.interfaces()
    assert "lo" not in [interface.name for interface in found]
    assert all(isinstance(interface, Interface) for interface in found)


def test_a_checker_of_fields_is_used_for_flags(empty: Path) -> None:
    with pytest.raises(InvalidField):
        init.split(IPv4Network("10.0.0.0/30"))
    with pytest.raises(HeadnodeError):
        init.create(Paths(empty), replace(GIVEN, domain="?"))
