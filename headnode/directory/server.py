"""slapd: its configuration, its certificate and its places. Headnode runs it; nobody else's slapd is touched."""

import os
import pwd
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import templates
from headnode import authority, run
from headnode.errors import ProgramFailed, PublishFailed
from headnode.ldaptree import Tree
from headnode.model import File, Files, Node
from headnode.paths import Paths
from headnode.site import Site

CONFIG, SCHEMA = "slapd/slapd.conf", "slapd/headnode.schema"
SUDO_ATTRIBUTES = (
    (1, "sudoUser"), (2, "sudoHost"), (3, "sudoCommand"), (4, "sudoRunAs"), (5, "sudoOption"), (6, "sudoRunAsUser"),
    (7, "sudoRunAsGroup"),
)  # fmt: skip


class Slapd:
    name = "slapd"

    def __init__(self, places: Paths) -> None:
        self.places = places

    def site_files(self, site: Site) -> Files:
        if site.directory.mode != "internal":
            return {}
        made_from = f"site {site.cluster}"
        schema = templates.render("slapd/headnode.schema.j2", sudo_attributes=SUDO_ATTRIBUTES, made_from=made_from)
        return {
            CONFIG: File(configuration(site, self.places, self.places.published / SCHEMA).encode()),
            SCHEMA: File(schema.encode()),
        }

    def node_files(self, site: Site, node: Node) -> Files:
        return {}

    def check(self, staged: Path, live: Path, changed: Iterable[str]) -> list[str]:
        if not {CONFIG, SCHEMA} & set(changed):
            return []
        # Only what changed is staged; the rest is as it was.
        config, schema = ((staged if (staged / name).exists() else live) / name for name in (CONFIG, SCHEMA))
        return ask_slapd(config.read_text(), schema, self.places)


def configuration(site: Site, places: Paths, schema: Path) -> str:
    tree = Tree.of(site)
    group = site.directory.admin_group
    return templates.render(
        "slapd/slapd.conf.j2",
        made_from=f"site {site.cluster}",
        schema=schema,
        runtime=places.runtime / "slapd",
        tls=places.directory / "tls",
        ca=places.ca / "ca.crt",
        data=places.directory / "data",
        base=tree.base,
        root_dn=tree.root,
        people=tree.people,
        groups=tree.groups,
        sudoers=tree.sudoers,
        policies=tree.policies,
        reader=tree.reader,
        admins=tree.group(group) if group else None,
    )


def ask_slapd(config: str, schema: Path, places: Paths) -> list[str]:
    """`slaptest -u` opens no database, but wants the directories and the schema that it reads about."""
    if not run.have("slaptest"):
        return ["slapd is not installed here, so its configuration was not checked"]
    with tempfile.TemporaryDirectory() as scratch:
        harmless = config.replace(str(places.published / SCHEMA), str(schema))
        for directory in (places.directory / "data", places.runtime / "slapd"):
            harmless = harmless.replace(str(directory), scratch)
        # The certificate is made when slapd is started.
        harmless = "".join(line for line in harmless.splitlines(True) if not line.startswith("TLSC"))
        copy = Path(scratch) / "slapd.conf"
        copy.write_text(harmless)
        try:
            run.run(["slaptest", "-u", "-Q", "-f", copy])
        except ProgramFailed as error:
            said = error.stderr.strip() or error.message
            raise PublishFailed(f"slapd refuses {CONFIG}: {said}; what was live before still is") from error
    return []


def prepare(site: Site, places: Paths) -> None:
    """Directories of its own, that only its user may enter, and a certificate that has not run out."""
    owner = pwd.getpwnam(places.slapd_user)
    tls = places.directory / "tls"
    for directory, mode in (
        (places.directory, 0o711),
        (places.directory / "data", 0o700),
        (tls, 0o700),
        (places.runtime / "slapd", 0o755),
    ):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(mode)
        os.chown(directory, owner.pw_uid, owner.pw_gid)
    authority.sign_server(places.ca, tls, "slapd", names(site), site.cluster)
    for file in tls.iterdir():
        os.chown(file, owner.pw_uid, owner.pw_gid)


def names(site: Site) -> list[str]:
    """Everything that nodes and programs may call this server by."""
    return [f"head.{site.domain}", "head", *(str(net.head) for net in site.networks.values() if net.head)]


def certificate_ends_soon(site: Site, places: Paths) -> bool:
    return not authority.is_good(places.ca, places.directory / "tls/slapd.crt", names(site))


def listening(places: Paths) -> bool:
    """Its socket is there a moment before it can be connected to."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        return connection.connect_ex(str(places.ldap_socket)) == 0


def socket_url(places: Paths) -> str:
    return f"ldapi://{quote(str(places.ldap_socket), safe='')}/"


def addresses(site: Site, places: Paths) -> str:
    """Where it listens: the provision network for nodes, a socket for ourselves."""
    head = site.provision.head
    return f"ldap://{head}/ ldaps://{head}/ {socket_url(places)}"
