"""The overlay: the files that make a generic system this node. Pure, and the same for every way of installing.

Only plain files can be written, no links: units are switched on by a drop-in of multi-user.target and masked by empty
files, which systemd treats as it treats links.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import templates
from headnode.ldaptree import LOCKED, LOCKED_FOR_EVER, Tree
from headnode.model import Node
from headnode.packagecache import mirror_for_nodes, proxy_for_nodes
from headnode.shares import shares
from headnode.site import Layout, Site
from images import filesystems
from images.bootloader import kernel_line
from images.culling import limits
from images.gpufiles import gpu_files, masked, units
from images.hostkeys import HostKey
from images.nvidia.stack import Kind, Stack
from images.owner import Owner
from images.plan import md_uuid
from images.pools import docker_pools
from images.ports import ports

NO_STACK = Stack("nothing")
CACHE = "/var/cache/fscache"
EXPORTER = "prometheus-node-exporter"
CA_FILE = "/usr/local/share/ca-certificates/headnode.crt"
DIRECTORY_CA = "/etc/sssd/directory-ca.crt"
# What sssd calls the attributes that a site may name.
SSSD_NAMES = {
    "name": "ldap_user_name", "uid": "ldap_user_uid_number", "gid": "ldap_user_gid_number",
    "full_name": "ldap_user_fullname", "email": "ldap_user_email", "home": "ldap_user_home_directory",
    "shell": "ldap_user_shell", "ssh_keys": "ldap_user_ssh_public_key",
}  # fmt: skip
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "unattended-upgrades.service",
    # sssd is started as a whole; its socket-activated halves would answer before it is configured.
    "sssd-nss.socket", "sssd-pam.socket", "sssd-pam-priv.socket", "sssd-ssh.socket", "sssd-sudo.socket",
    "sssd-autofs.socket", "sssd-pac.socket",
)  # fmt: skip


@dataclass(frozen=True)
class OverlayFile:
    content: bytes
    mode: int = 0o644
    owner: str = "root:root"


@dataclass(frozen=True)
class Secrets:
    """What the caller keeps sealed and hands out for the time of a deployment."""

    host_keys: tuple[HostKey, ...] = ()
    # No secrets, but they come from the same place: our authorities, and the keys of archives by their names.
    ca_certificate: str = ""
    ssh_authority: str = ""
    archive_keys: Mapping[str, bytes] = field(default_factory=dict)
    # Registry → the certificate of the authority that signed its own.
    registries: Mapping[str, str] = field(default_factory=dict)
    # The hash of the local account's password, if it has one.
    admin_hash: str = field(default="", repr=False)
    # Of a directory that is not ours: what to trust, and the password of the account it is read with.
    directory_ca: str = ""
    bind_password: str = field(default="", repr=False)


Files = dict[str, OverlayFile]


@dataclass(frozen=True)
class Subject:
    """Everything a file of the overlay may depend on."""

    site: Site
    node: Node
    settings: Mapping[str, Any]
    secrets: Secrets
    stack: Stack = NO_STACK
    # Bytes of the volume that holds copies of what comes over NFS, when the node's disks are known.
    cache_size: int | None = None

    @property
    def layout(self) -> Layout:
        return self.site.layouts[self.settings["layout"]]

    @property
    def owner(self) -> Owner:
        return Owner(self.site.cluster, self.node.name)

    @property
    def head(self) -> str:
        return str(self.site.provision.head)

    @property
    def caches(self) -> bool:
        """Whether the layout has a place for copies of what comes over NFS."""
        return any(volume.mount == CACHE for volume in self.layout.volumes)

    def text(self, template: str, /, **values: Any) -> bytes:
        made_from = f"node {self.node.name}, profile {self.node.profile}"
        return templates.render(
            f"overlay/{template}.j2", made_from=made_from, site=self.site, node=self.node, settings=self.settings,
            head=self.head, **values,
        ).encode()  # fmt: skip

    def file(self, template: str, mode: int = 0o644, /, **values: Any) -> OverlayFile:
        return OverlayFile(self.text(template, **values), mode)


def overlay(
    site: Site,
    node: Node,
    settings: Mapping[str, Any],
    secrets: Secrets,
    stack: Stack | None = None,
    cache_size: int | None = None,
) -> Files:
    """Every file by its path in the installed system."""
    about = Subject(site, node, settings, secrets, stack or NO_STACK, cache_size)
    makers = (
        identity, network, mounts, ssh, directory, accounts, clock, services, containers, archives, tuning, gpus
    )  # fmt: skip
    return dict(sorted((path, file) for make in makers for path, file in make(about)))


Made = Iterator[tuple[str, OverlayFile]]


def identity(about: Subject) -> Made:
    name = about.node.name
    yield "/etc/hostname", OverlayFile(f"{name}\n".encode())
    yield "/etc/hosts", about.file("hosts")
    yield "/etc/resolv.conf", about.file("resolv.conf")
    if about.secrets.ca_certificate:
        yield CA_FILE, OverlayFile(about.secrets.ca_certificate.encode())
        yield "/etc/systemd/system/headnode-ca.service", about.file("ca.service")


def network(about: Subject) -> Made:
    found = ports(about.site, about.node)
    if about.settings.get("os") == "ubuntu":
        yield "/etc/netplan/60-headnode.yaml", about.file("netplan.yaml", 0o600, ports=found)
    else:
        for port in found:
            yield from networkd(about, port)
    drop_in = "/etc/systemd/system/systemd-networkd-wait-online.service.d/headnode.conf"
    yield drop_in, about.file("wait-online.conf")


def networkd(about: Subject, port: Any) -> Made:
    at = "/etc/systemd/network/60-headnode"
    yield f"{at}-{port.id}.network", about.file("port.network", port=port)
    if port.bond:
        yield f"{at}-{port.id}.netdev", about.file("bond.netdev", port=port)
        for index, nic in enumerate(port.nics):
            yield f"{at}-{port.member(index)}.network", about.file("member.network", port=port, nic=nic)
    if not port.infiniband:
        for index, nic in enumerate(port.nics):
            yield f"{at}-{port.member(index)}.link", about.file("port.link", port=port, nic=nic)


def nfs_lines(about: Subject) -> list[tuple[str, str, str, str, int]]:
    # A server that is away must not keep a node from starting, and must not lose what was being written.
    common = ["vers=4.2", "hard", "_netdev", "nofail", *(["fsc"] if about.caches else [])]
    return [(share.source, share.path, "nfs4", ",".join([*common, *share.options]), 0) for share in shares(about.site)]


def mounts(about: Subject) -> Made:
    lines = [*filesystems.fstab(about.layout, about.owner), *nfs_lines(about)]
    yield "/etc/fstab", about.file("fstab", lines=lines)
    if about.caches:
        yield "/etc/cachefilesd.conf", about.file("cachefilesd.conf", directory=CACHE, limits=limits(about.cache_size))
        yield "/etc/systemd/system/cachefilesd.service", about.file("cachefilesd.service", directory=CACHE)
    if about.layout.raid1:
        arrays = [(name, md_uuid(about.owner.id("array", name))) for name in about.layout.raid1]
        yield "/etc/mdadm/mdadm.conf", about.file("mdadm.conf", arrays=arrays)


def ssh(about: Subject) -> Made:
    keys = about.secrets.host_keys
    yield "/etc/ssh/sshd_config.d/headnode.conf", about.file("sshd.conf", 0o600, keys=keys)
    for key in keys:
        yield key.path, OverlayFile(key.private.encode(), 0o600)
        yield f"{key.path}.pub", OverlayFile(f"{key.public} {about.node.name}\n".encode())
        if key.certificate:
            yield f"{key.path}-cert.pub", OverlayFile(f"{key.certificate}\n".encode())
    if about.secrets.ssh_authority:
        yield "/etc/ssh/ssh_known_hosts", about.file("known_hosts", authority=about.secrets.ssh_authority)
    if about.site.access.admin_keys:
        yield "/root/.ssh/authorized_keys", about.file("authorized_keys", 0o600)
    access = about.site.access
    if access.admin_user or (access.sudo_group and about.site.directory.mode == "external"):
        yield "/etc/sudoers.d/headnode", about.file("sudoers", 0o440, hashed=bool(about.secrets.admin_hash))


def directory(about: Subject) -> Made:
    site, tree = about.site, Tree.of(about.site)
    ours = site.directory.mode == "internal"
    ca = CA_FILE if ours else DIRECTORY_CA if about.secrets.directory_ca else ""
    groups = tuple(about.settings.get("access") or ())
    names = {"ssh_keys": "sshPublicKey", **site.directory.attributes}
    yield "/etc/sssd/sssd.conf", about.file(
        "sssd.conf", 0o600, ours=ours, tree=tree, base=tree.base, ca=ca, groups=groups,
        uri=f"ldap://head.{site.domain}" if ours else site.directory.uri, filter=access_filter(tree, groups),
        names=[(SSSD_NAMES[key], name) for key, name in names.items()], bind_password=about.secrets.bind_password,
    )  # fmt: skip
    if about.secrets.directory_ca:
        yield DIRECTORY_CA, OverlayFile(about.secrets.directory_ca.encode())


def access_filter(tree: Tree, groups: tuple[str, ...]) -> str:
    """Who may log in: members of one of these groups, or everybody; nobody who is locked."""
    members = "".join(f"(memberOf={tree.group(group)})" for group in groups)
    unlocked = f"(!({LOCKED}={LOCKED_FOR_EVER}))"
    return f"(&(|{members}){unlocked})" if members else unlocked


def accounts(about: Subject) -> Made:
    """The local account for the day the directory is down, and homes that are made when they are missing."""
    admin, hashed = about.site.access.admin_user, about.secrets.admin_hash
    yield "/etc/systemd/system/headnode-accounts.service", about.file("accounts.service", hashed=bool(hashed))
    # The distribution's own would make homes that everybody can read.
    yield "/usr/share/pam-configs/headnode", about.file("pam-homes")
    if admin is None:
        return
    yield "/etc/headnode/accounts.conf", about.file("accounts.conf")
    yield f"/etc/ssh/headnode_keys/{admin}", about.file("authorized_keys")
    if hashed:
        yield "/etc/headnode/admin.hash", OverlayFile(hashed.encode(), 0o600)


def clock(about: Subject) -> Made:
    yield "/etc/chrony/chrony.conf", about.file("chrony.conf")


def services(about: Subject) -> Made:
    """Which units run; multi-user is the end of starting, whatever desktop an image may carry."""
    wanted = ["systemd-networkd.service", "ssh.service", "sssd.service", "chrony.service", "headnode-accounts.service"]
    wanted += ["cachefilesd.service"] if about.caches else []
    wanted += ["headnode-ca.service"] if about.secrets.ca_certificate else []
    wanted += units(about.stack)
    # Every image has it, and its package would have it listen on every network.
    wanted.append(f"{EXPORTER}.service")
    yield f"/etc/default/{EXPORTER}", about.file("node-exporter")
    yield f"/etc/systemd/system/{EXPORTER}.service.d/headnode.conf", about.file("node-exporter.conf")
    yield "/etc/systemd/system/multi-user.target.d/headnode.conf", about.file("multi-user.conf", units=wanted)
    yield "/etc/systemd/system/default.target", about.file("default.target")
    for unit in (*MASKED, *masked(about.stack)):
        yield f"/etc/systemd/system/{unit}", OverlayFile(b"")


def containers(about: Subject) -> Made:
    packages = about.site.packages
    pools = docker_pools(net.cidr for net in about.site.networks.values())
    configuration: dict[str, Any] = {
        # The bridge takes the first address of the first pool, for the same reason as the pools.
        "bip": f"{pools[0].network_address + 1}/24",
        "default-address-pools": [{"base": str(pool), "size": 24} for pool in pools],
        "log-driver": "json-file",
        "log-opts": {"max-size": "50m", "max-file": "3"},
        "live-restore": True,
    }
    if runtimes := about.stack.values(Kind.RUNTIME):
        configuration["features"] = {"cdi": True}
        configuration["runtimes"] = {name: {"path": f"{name}-container-runtime", "args": []} for name in runtimes}
    if packages.docker_mirror:
        configuration["registry-mirrors"] = [packages.docker_mirror]
    for host, certificate in registries(about).items():
        yield f"/etc/docker/certs.d/{host}/ca.crt", OverlayFile(certificate.encode())
    yield "/etc/docker/daemon.json", OverlayFile((json.dumps(configuration, indent=2) + "\n").encode())
    if packages.http_proxy:
        yield "/etc/systemd/system/docker.service.d/headnode-proxy.conf", about.file("docker-proxy.conf")


def registries(about: Subject) -> dict[str, str]:
    """Which authority Docker trusts for which registry; the site's own vouches for the mirror unless another does."""
    mirror = urlsplit(about.site.packages.docker_mirror or "").netloc
    ours = {mirror: about.secrets.ca_certificate} if mirror and about.secrets.ca_certificate else {}
    return {**ours, **about.secrets.registries}


def archives(about: Subject) -> Made:
    packages = about.site.packages
    yield "/etc/apt/apt.conf.d/90headnode", about.file("apt.conf", proxy=proxy_for_nodes(about.site))
    if mirror := mirror_for_nodes(about.site, str(about.settings.get("os"))):
        yield "/etc/apt/sources.list", about.file("sources.list", mirror=mirror)
    if packages.pip_index:
        host = urlsplit(packages.pip_index).hostname
        yield "/etc/pip.conf", about.file("pip.conf", host=host)
    if packages.http_proxy:
        yield "/etc/environment", about.file("environment")


def tuning(about: Subject) -> Made:
    yield "/etc/sysctl.d/90-headnode.conf", about.file("sysctl.conf")
    yield "/etc/security/limits.d/90-headnode.conf", about.file("limits.conf")
    arguments = kernel_line(about.layout, about.owner, about.settings)
    # update-grub adds root= itself; ours would come second and be the one that counts after a change of disks.
    words = [word for word in arguments.split() if not word.startswith("root=") and word != "ro"]
    yield "/etc/default/grub.d/headnode.cfg", about.file("grub-default.cfg", arguments=" ".join(words))


def gpus(about: Subject) -> Made:
    """What the solver concluded, as files."""
    wanted = {name: about.site.packages.archives[name] for name in about.stack.values(Kind.ARCHIVE)}
    for path, content in gpu_files(about.stack, wanted, about.secrets.archive_keys):
        yield path, OverlayFile(content)
    for unit in ("cdi", "mig"):
        if found := next((i.value for i in about.stack.items if i.value.startswith(f"headnode-{unit}.service")), None):
            _, _, value = found.partition("=")
            yield f"/etc/systemd/system/headnode-{unit}.service", about.file(f"{unit}.service", profiles=value)
