"""The files that make a system this node: as they were looked at, and as the programs that read them judge."""

import configparser
import json
import shutil
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import templates
from headnode import run, sitefile
from headnode.effective import effective
from headnode.errors import HeadnodeError, InvalidSite
from headnode.model import Nic, Node
from headnode.site import Site
from images import filesystems
from images.hostkeys import certified, generate, known_hosts
from images.layouts import resolve
from images.overlay import CACHE, Files, Secrets, overlay
from images.owner import Owner
from images.pools import LONGEST_POOL, docker_pools
from tests.images.support import CASES, facts_of, read, shipped

GOLDEN = Path(__file__).parent.parent / "golden/overlay"
NETWORKS = """
networks:
  provision: {cidr: 10.20.0.0/16, interface: hnprov0, head: 10.20.0.1, node_range: 10.20.1.0-10.20.250.255,
              gateway: 10.20.0.254}
  storage: {cidr: 10.22.0.0/16, mtu: 9000, bond: 802.3ad}
  ib: {cidr: 10.23.0.0/16, mtu: 65520, type: infiniband}
  docker-like: {cidr: 172.16.0.0/14}
packages: {proxy: "http://10.20.0.1:3142", mirror: "http://10.20.0.1/debian", pip_index: "http://10.20.0.1:3141/simple",
           docker_mirror: "https://registry.demo.lan:5000", http_proxy: "http://proxy.demo.lan:3128"}
storage:
  home: nas.demo.lan:/export/home
  mounts: [{source: "nas.demo.lan:/export/data", path: /data, options: [ro]}]
access:
  ssh_port: 2222
  sudo_group: wheel
  admin_user: rescue
  admin_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBuUc3Mpkj0LlCnTuKkPWOIQa3jKJ0Qp0kHQf2XhC1Zb ada@example"]
"""
NICS = (
    Nic("52:54:00:aa:00:01", address="10.20.1.0"),
    Nic("52:54:00:bb:00:01", "storage", "10.22.1.0"),
    Nic("52:54:00:bb:00:02", "storage"),
    Nic("52:54:00:cc:00:01", "ib", "10.23.1.0", name="ibp65s0"),
)
NODE = Node("gpu01", "gpu", NICS)
CA = "-----BEGIN CERTIFICATE-----\nZm9y IHRlc3Rz\n-----END CERTIFICATE-----\n"
AUTHORITY = generate()[0]
KEYS = tuple(certified(key, AUTHORITY, "gpu01", ["gpu01", "gpu01.demo.lan", "10.20.1.0"]) for key in generate())


def rich_site() -> Site:
    """A site in which every optional file of the overlay is wanted."""
    text = "cluster: demo\ndomain: demo.lan\nprofiles: {gpu: {layout: default}}\n" + NETWORKS
    plain = sitefile.parse(text.replace("layout: default", "").encode(), "site.yaml")
    return plain.model_copy(update={"layouts": shipped().layouts})


def made(**changes: object) -> Files:
    site, node = rich_site(), replace(NODE, settings={"layout": "default", **NODE.settings, **changes})
    settings = {key: found.value for key, found in effective(site, node).items()}
    return overlay(site, node, settings, Secrets(KEYS, CA, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHRlc3Q="))


def text(files: Files, path: str) -> str:
    return files[path].content.decode()


# Template → the file it becomes, and the settings that make it so.
WHERE: dict[str, tuple[str, dict[str, str]]] = {
    "hosts": ("/etc/hosts", {}),
    "resolv.conf": ("/etc/resolv.conf", {}),
    "ca.service": ("/etc/systemd/system/headnode-ca.service", {}),
    "netplan.yaml": ("/etc/netplan/60-headnode.yaml", {"os": "ubuntu"}),
    "port.network": ("/etc/systemd/network/60-headnode-provision.network", {}),
    "bond.netdev": ("/etc/systemd/network/60-headnode-bond-storage.netdev", {}),
    "member.network": ("/etc/systemd/network/60-headnode-bond-storage-1.network", {}),
    "port.link": ("/etc/systemd/network/60-headnode-bond-storage-0.link", {}),
    "wait-online.conf": ("/etc/systemd/system/systemd-networkd-wait-online.service.d/headnode.conf", {}),
    "fstab": ("/etc/fstab", {}),
    "cachefilesd.conf": ("/etc/cachefilesd.conf", {}),
    "cachefilesd.service": ("/etc/systemd/system/cachefilesd.service", {}),
    "mdadm.conf": ("/etc/mdadm/mdadm.conf", {"layout": "raid1-system"}),
    "sshd.conf": ("/etc/ssh/sshd_config.d/headnode.conf", {}),
    "known_hosts": ("/etc/ssh/ssh_known_hosts", {}),
    "authorized_keys": ("/root/.ssh/authorized_keys", {}),
    "sudoers": ("/etc/sudoers.d/headnode", {}),
    "accounts.service": ("/etc/systemd/system/headnode-accounts.service", {}),
    "pam-homes": ("/usr/share/pam-configs/headnode", {}),
    "accounts.conf": ("/etc/headnode/accounts.conf", {}),
    "sssd.conf": ("/etc/sssd/sssd.conf", {}),
    "chrony.conf": ("/etc/chrony/chrony.conf", {}),
    "multi-user.conf": ("/etc/systemd/system/multi-user.target.d/headnode.conf", {}),
    "default.target": ("/etc/systemd/system/default.target", {}),
    "node-exporter": ("/etc/default/prometheus-node-exporter", {}),
    "node-exporter.conf": ("/etc/systemd/system/prometheus-node-exporter.service.d/headnode.conf", {}),
    "docker-proxy.conf": ("/etc/systemd/system/docker.service.d/headnode-proxy.conf", {}),
    "environment": ("/etc/environment", {}),
    "apt.conf": ("/etc/apt/apt.conf.d/90headnode", {}),
    "sources.list": ("/etc/apt/sources.list", {}),
    "pip.conf": ("/etc/pip.conf", {}),
    "sysctl.conf": ("/etc/sysctl.d/90-headnode.conf", {}),
    "limits.conf": ("/etc/security/limits.d/90-headnode.conf", {}),
    "grub-default.cfg": ("/etc/default/grub.d/headnode.cfg", {}),
}
# The boot menu is part of the plan, and golden in tests/images/cases; the other is included.
# Those of GPUs are in test_gpufiles.py.
ELSEWHERE = {"grub.cfg", "proxy-units", "report.service", "cdi.service", "mig.service"}


@pytest.mark.parametrize("name", WHERE)
def test_a_file_is_the_one_that_was_looked_at(name: str, request: pytest.FixtureRequest) -> None:
    path, settings = WHERE[name]
    found, golden = text(made(**settings), path), GOLDEN / name
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(found)
    assert found == golden.read_text(), "'pytest --update-golden' if this is what is wanted"
    assert f"Made by headnode from templates/overlay/{name}.j2 for node gpu01" in found.splitlines()[0]


def test_every_template_of_the_overlay_has_a_golden_file() -> None:
    names = {path.name.removesuffix(".j2") for path in (templates.HERE / "overlay").glob("*.j2")}
    assert names - ELSEWHERE == set(WHERE)


def test_secrets_are_closed_and_everything_has_a_place() -> None:
    files = made()
    for path, file in files.items():
        assert path.startswith("/")
        assert file.owner == "root:root"
        if b"PRIVATE KEY" in file.content:
            assert file.mode == 0o600
    assert files["/etc/sssd/sssd.conf"].mode == 0o600
    assert files["/etc/sudoers.d/headnode"].mode == 0o440
    assert "PRIVATE" not in repr(KEYS)


def test_the_overlay_is_pure() -> None:
    assert made() == made()


def test_host_keys_are_the_same_at_every_reinstall() -> None:
    assert text(made(), "/etc/ssh/ssh_host_ed25519_key") == KEYS[0].private
    assert text(made(os="ubuntu"), "/etc/ssh/ssh_host_ed25519_key.pub").startswith(KEYS[0].public)


@pytest.mark.program("ssh-keygen")
def test_known_hosts_is_found_by_every_name(tmp_path: Path) -> None:
    (tmp_path / "known").write_text(known_hosts([("gpu01", "demo.lan", "10.20.1.0", 2222, KEYS)]))
    for name in ("[gpu01]:2222", "[gpu01.demo.lan]:2222", "[10.20.1.0]:2222"):
        assert run.run(["ssh-keygen", "-F", name, "-f", str(tmp_path / "known")]).stdout.count(KEYS[0].public) == 1
    private = tmp_path / "key"
    private.touch(0o600)
    private.write_text(KEYS[1].private)
    assert run.run(["ssh-keygen", "-y", "-f", str(private)]).stdout.split()[:2] == KEYS[1].public.split()[:2]


@pytest.mark.program("ssh-keygen")
def test_host_keys_are_certified_for_every_name_and_for_no_other(tmp_path: Path) -> None:
    for key in KEYS:
        (tmp_path / "cert").write_text(text(made(), f"{key.path}-cert.pub"))
        said = run.run(["ssh-keygen", "-L", "-f", str(tmp_path / "cert")]).stdout
        assert "host certificate" in said
        assert "Valid: forever" in said
        listed = said.partition("Principals:")[2].partition("Critical Options:")[0].split()
        assert listed == ["gpu01", "gpu01.demo.lan", "10.20.1.0"]
        (tmp_path / "ca").write_text(AUTHORITY.public)
        fingerprint = run.run(["ssh-keygen", "-l", "-f", str(tmp_path / "ca")]).stdout.split()[1]
        assert fingerprint in said


# fstab, by a parser of our own: findmnt asks for devices that this machine does not have.


@pytest.mark.parametrize("layout", ["default", "gpu-nvme", "single-disk", "raid1-system", "login"])
def test_fstab_mounts_the_layout(layout: str) -> None:
    lines = [line.split() for line in text(made(layout=layout), "/etc/fstab").splitlines() if line[0] != "#"]
    assert all(len(line) == 6 for line in lines)
    where = [line[1] for line in lines if line[1] != "none"]
    wanted = {volume.mount for volume in shipped().layouts[layout].volumes if volume.mount}
    assert set(where) == wanted | {"/home", "/data"}
    assert len(set(where)) == len(where)
    for at, path in enumerate(where):
        assert all(not other.startswith(path.rstrip("/") + "/") for other in where[:at]), "parents come first"
    by_path = {line[1]: line for line in lines}
    assert by_path["/"][5] == "1"
    assert {"nodev", "nosuid"} <= set(by_path["/tmp"][3].split(","))
    assert {"nofail", "_netdev"} <= set(by_path["/home"][3].split(","))
    assert ("fsc" in by_path["/home"][3].split(",")) == (CACHE in wanted)


@pytest.mark.parametrize("stem", ["single-disk-uefi", "gpu-nvme-fresh", "gpu-nvme-reinstall", "raid1-uefi"])
def test_fstab_names_only_what_the_plan_makes(stem: str) -> None:
    case = read(CASES / f"{stem}.yaml")
    owner = Owner("demo", "gpu01")
    layout = shipped().layouts[case["layout"]]
    resolved = resolve(case["layout"], layout, facts_of(case["facts"]), owner)
    made_ids = {f"UUID={owner.id('fs', place.volume.name)}" for place in resolved.places if not place.kept}
    for table in resolved.tables:
        for part in table.parts:
            final = part.id if not part.volume.keep else owner.id("keep", part.volume.name)
            made_ids.add(f"PARTUUID={final}")
    assert {line[0] for line in filesystems.fstab(layout, owner)} <= made_ids


# The programs that will read the files.


@pytest.mark.program("netplan")
def test_netplan_understands_its_file(tmp_path: Path) -> None:
    (tmp_path / "etc/netplan").mkdir(parents=True)
    target = tmp_path / "etc/netplan/60-headnode.yaml"
    target.touch(0o600)
    target.write_text(text(made(os="ubuntu"), "/etc/netplan/60-headnode.yaml"))
    run.run(["netplan", "generate", "--root-dir", str(tmp_path)])
    units = {path.name: path.read_text() for path in (tmp_path / "run/systemd/network").iterdir()}
    assert "Address=10.20.1.0/16" in units["10-netplan-provision.network"]
    assert "RequiredForOnline=no" not in units["10-netplan-provision.network"]
    assert "Mode=802.3ad" in units["10-netplan-bond-storage.netdev"]
    assert "RequiredForOnline=no" in units["10-netplan-bond-storage.network"]
    assert "Mode=connected" in units["10-netplan-ib.network"]


def test_networkd_files_are_well_formed() -> None:
    for path, file in made().items():
        if path.startswith("/etc/systemd/network/"):
            parser = configparser.ConfigParser(strict=False, interpolation=None)
            parser.read_string(file.content.decode())
            assert "Match" in parser or "NetDev" in parser
    assert "Gateway=10.20.0.254" in text(made(), "/etc/systemd/network/60-headnode-provision.network")
    assert "Name=ibp65s0" in text(made(), "/etc/systemd/network/60-headnode-ib.network")


@pytest.mark.root
@pytest.mark.program("sshd")
def test_sshd_takes_its_file(tmp_path: Path) -> None:
    files = made()
    settings = text(files, "/etc/ssh/sshd_config.d/headnode.conf")
    for key in KEYS:
        private = tmp_path / key.kind
        private.touch(0o600)
        private.write_text(key.private)
        settings = settings.replace(key.path, str(private))
    (tmp_path / "sshd.conf").write_text(settings)
    Path("/run/sshd").mkdir(exist_ok=True)
    said = run.run(["sshd", "-T", "-f", str(tmp_path / "sshd.conf")]).stdout
    assert "port 2222" in said
    assert "clientaliveinterval 60" in said
    assert "authorizedkeyscommand /usr/bin/sss_ssh_authorizedkeys" in said


CHECKS = [
    pytest.param("/etc/chrony/chrony.conf", ["chronyd", "-p", "-f", "FILE"], 0o644,
                 marks=[pytest.mark.root, pytest.mark.program("chronyd")], id="chronyd"),
    pytest.param("/etc/sudoers.d/headnode", ["visudo", "-c", "-f", "FILE"], 0o440,
                 marks=pytest.mark.program("visudo"), id="visudo"),
    pytest.param("/etc/sssd/sssd.conf", ["sssctl", "config-check", "-c", "FILE"], 0o600,
                 marks=[pytest.mark.root, pytest.mark.program("sssctl")], id="sssctl"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "argv", "mode"), CHECKS)
def test_the_program_takes_its_file(tmp_path: Path, path: str, argv: list[str], mode: int) -> None:
    file = tmp_path / Path(path).name
    file.write_bytes(made()[path].content)
    file.chmod(mode)
    # sssctl complains of a missing directory for snippets.
    (tmp_path / "conf.d").mkdir()
    run.run([word.replace("FILE", str(file)) for word in argv])


@pytest.mark.program("systemd-analyze")
def test_systemd_understands_every_unit(tmp_path: Path) -> None:
    """Below a root of its own, with the programs and units that an image brings."""
    names = []
    for path, file in made().items():
        if path.startswith("/etc/systemd/system/") and file.content:
            target = tmp_path / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            if target.suffix in (".service", ".target"):
                names.append(target.name)
    for program in ("sbin/cachefilesd", "sbin/modprobe", "usr/sbin/update-ca-certificates", "usr/bin/touch",
                        "usr/bin/systemd-sysusers", "usr/sbin/pam-auth-update"):  # fmt: skip
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", tmp_path / program)
    units = tmp_path / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for found in Path("/usr/lib/systemd/system").glob("*.target"):
        shutil.copy(found, units / found.name, follow_symlinks=True)
    done = run.run(["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", f"--root={tmp_path}", *names],
                   check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in names:
        assert name not in done.stderr


def test_docker_is_kept_out_of_the_sites_networks() -> None:
    configuration = json.loads(text(made(), "/etc/docker/daemon.json"))
    pools = [IPv4Network(pool["base"]) for pool in configuration["default-address-pools"]]
    for net in rich_site().networks.values():
        assert not any(pool.overlaps(net.cidr) for pool in pools)
    assert configuration["registry-mirrors"] == ["https://registry.demo.lan:5000"]
    assert "/etc/docker/certs.d/registry.demo.lan:5000/ca.crt" in made()


def inside(whole: IPv4Network, bits: int, length: int) -> IPv4Network:
    return IPv4Network((int(whole.network_address) | (bits & int(whole.hostmask)), length), strict=False)


PRIVATE = [IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
NETS = st.lists(st.builds(inside, st.sampled_from(PRIVATE), st.integers(0, 2**24 - 1), st.integers(8, 30)), max_size=12)


@given(NETS)
def test_pools_overlap_nothing(taken: list[IPv4Network]) -> None:
    pools = docker_pools(taken)
    assert 1 <= len(pools) <= 4
    for index, pool in enumerate(pools):
        assert pool.is_private or pool.subnet_of(IPv4Network("100.64.0.0/10"))
        assert 16 <= pool.prefixlen <= LONGEST_POOL
        assert not any(pool.overlaps(other) for other in [*taken, *pools[:index]])


def test_no_room_for_docker_is_said() -> None:
    whole = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"]
    with pytest.raises(HeadnodeError, match="leave no private network for Docker"):
        docker_pools(IPv4Network(text) for text in whole)


def test_a_minimal_site_has_a_minimal_overlay() -> None:
    site = shipped()
    node = Node("n1", "cpu", (Nic("52:54:00:aa:00:01", address="10.20.1.0"),))
    files = overlay(site, node, {key: v.value for key, v in effective(site, node).items()}, Secrets())
    for absent in ("/etc/pip.conf", "/etc/environment", "/etc/sudoers.d/headnode", "/etc/cachefilesd.conf"):
        assert absent not in files
    assert "nfs4" not in text(files, "/etc/fstab")
    assert "PermitRootLogin" in text(files, "/etc/ssh/sshd_config.d/headnode.conf")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("storage: {home: nas}", "use server:/directory"),
        ("storage: {mounts: [{source: 'nas:/x', path: data}]}", "use an absolute path"),
        ("storage: {home: 'nas:/x', mounts: [{source: 'nas:/y', path: /home}]}", "two file systems are mounted there"),
        ("storage: {mounts: [{source: 'nas:/x', path: /d, options: ['a,b']}]}", "one mount option per list item"),
        ("packages: {docker_mirror: 'registry.lan:5000'}", "use an address such as https://10.20.0.9:5000"),
        ("packages: {pip_index: pypi}", "use an address such as http://10.20.0.9:3141/simple"),
        ("packages: {registries: {'registry.lan:port': /etc/x.pem}}", "use a host, or a host and a port"),
        ("packages: {registries: {'registry.lan:5000': x.pem}}", "use the absolute path of a file"),
        ("access: {ssh_port: 0}", "use a whole number of at least 1"),
        ("access: {admin_keys: ['my key']}", "use one line of a public key file"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(line: str, words: str) -> None:
    nets = (
        "networks: {provision: {cidr: 10.20.0.0/16, interface: e0, head: 10.20.0.1, node_range: 10.20.1.0-10.20.1.9}}"
    )
    with pytest.raises(InvalidSite, match=words):
        sitefile.parse(f"cluster: demo\ndomain: demo.lan\n{nets}\n{line}\n".encode(), "site.yaml")


def test_docker_trusts_each_registry_by_its_own_authority_and_the_mirror_by_the_sites() -> None:
    site = rich_site()
    settings = {
        key: found.value for key, found in effective(site, replace(NODE, settings={"layout": "default"})).items()
    }
    others = {"nvcr.mirror.lan": "another\n", "registry.demo.lan:5000": "the mirror's own\n"}
    for authorities, mirror in (({}, CA), (others, "the mirror's own\n")):
        files = overlay(site, NODE, settings, Secrets(KEYS, CA, registries=authorities))
        assert text(files, "/etc/docker/certs.d/registry.demo.lan:5000/ca.crt") == mirror
        assert ("/etc/docker/certs.d/nvcr.mirror.lan/ca.crt" in files) == bool(authorities)
    without = site.model_copy(update={"packages": site.packages.model_copy(update={"docker_mirror": None})})
    assert not [path for path in overlay(without, NODE, settings, Secrets(KEYS, CA)) if "/docker/certs.d/" in path]


def test_every_node_exports_its_numbers_on_the_provision_network_alone() -> None:
    assert "--web.listen-address=10.20.1.0:9100" in text(made(), "/etc/default/prometheus-node-exporter")
    wanted = text(made(), "/etc/systemd/system/multi-user.target.d/headnode.conf")
    assert "Wants=prometheus-node-exporter.service" in wanted


def test_infiniband_ports_are_not_bonded() -> None:
    bonded = NETWORKS.replace("type: infiniband}", "type: infiniband, bond: active-backup}")
    with pytest.raises(InvalidSite, match="InfiniBand ports cannot be bonded"):
        sitefile.parse(f"cluster: demo\ndomain: demo.lan\n{bonded}".encode(), "site.yaml")


# People.


def with_people(who: str = "", directory: str = "", **changes: object) -> Files:
    """The overlay of a site that says more of who gets in."""
    text = "cluster: demo\ndomain: demo.lan\nprofiles: {gpu: {}}\n" + NETWORKS.split("storage:\n  home")[0]
    site = sitefile.parse(f"{text}\naccess: {{{who}}}\ndirectory: {{{directory}}}\n".encode(), "site.yaml")
    site = site.model_copy(update={"layouts": shipped().layouts})
    node = replace(NODE, settings={"layout": "default", **changes})
    settings = {key: found.value for key, found in effective(site, node).items()}
    return overlay(site, node, settings, Secrets(KEYS, CA, admin_hash="$6$salt$hash", bind_password="s3cret word"))


def sssd_of(files: Files) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text(files, "/etc/sssd/sssd.conf"))
    return parser["domain/demo"]


def test_a_node_lets_in_its_profiles_groups_and_nobody_who_is_locked() -> None:
    unlocked = "(!(pwdAccountLockedTime=000001010000Z))"
    assert sssd_of(with_people())["ldap_access_filter"] == unlocked
    chosen = sssd_of(with_people(access=("admin", "vision")))["ldap_access_filter"]
    members = "".join(f"(memberOf=cn={group},ou=groups,dc=demo,dc=lan)" for group in ("admin", "vision"))
    assert chosen == f"(&(|{members}){unlocked})"


def test_a_directory_of_somebody_elses_is_described_to_sssd() -> None:
    files = with_people(
        "sudo_group: wheel", "mode: external, uri: 'ldaps://ad.example.org', flavour: ad, bind_dn: 'cn=r,dc=x', "
        "attributes: {name: uid}", access=("staffers",),
    )  # fmt: skip
    domain = sssd_of(files)
    assert (domain["ldap_schema"], domain["ldap_user_name"], domain["ldap_uri"]) == (
        "ad",
        "uid",
        "ldaps://ad.example.org",
    )
    assert (domain["access_provider"], domain["simple_allow_groups"]) == ("simple", "staffers")
    assert domain["ldap_default_authtok"] == "s3cret word"
    assert "ldap_id_use_start_tls" not in domain
    assert "%wheel ALL=(ALL:ALL) ALL" in text(files, "/etc/sudoers.d/headnode")


def test_without_a_local_account_there_is_no_trace_of_one() -> None:
    files = with_people()
    assert "/etc/headnode/accounts.conf" not in files
    assert "/etc/sudoers.d/headnode" not in files
    assert "sysusers" not in text(files, "/etc/systemd/system/headnode-accounts.service")
    assert "AuthorizedKeysFile" not in text(files, "/etc/ssh/sshd_config.d/headnode.conf")


@pytest.mark.root
@pytest.mark.program("systemd-sysusers")
def test_systemd_makes_the_local_account(tmp_path: Path) -> None:
    """With the number, the shell and the hash that were wanted, in an empty system."""
    files = with_people("admin_user: rescue")
    assert files["/etc/headnode/admin.hash"].mode == 0o600
    assert "LoadCredential=passwd.hashed-password.rescue:/etc/headnode/admin.hash" in text(
        files, "/etc/systemd/system/headnode-accounts.service"
    )
    (tmp_path / "etc").mkdir()
    (tmp_path / "accounts.conf").write_bytes(files["/etc/headnode/accounts.conf"].content)
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "passwd.hashed-password.rescue").write_bytes(files["/etc/headnode/admin.hash"].content)
    run.run(
        ["systemd-sysusers", f"--root={tmp_path}", str(tmp_path / "accounts.conf")],
        env={"CREDENTIALS_DIRECTORY": str(credentials)},
    )
    (account,) = (tmp_path / "etc/passwd").read_text().splitlines()
    assert account == "rescue:x:1000:1000:for the day the directory is down:/var/lib/rescue:/bin/bash"
    assert (tmp_path / "etc/shadow").read_text().startswith("rescue:$6$salt$hash:")
