"""site.yaml as typed data: one cluster, its networks, profiles, layouts and services.

Each class is one block of the file and each field's description is its documentation: the reference page,
the JSON schema for editors and the messages are made from them. headnode/sitefile.py reads the file and says
in which line a problem is; headnode/sitevalues.py holds the checks of single values, headnode/sitechecks.py
those that look at more than one field.
"""

from ipaddress import IPv4Address
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from headnode.model import BmcDriver
from headnode.sitevalues import (
    Account,
    AddressRange,
    Cidr,
    DistinguishedName,
    Domain,
    FixedSize,
    HostName,
    ImageReference,
    Interface,
    Label,
    Listener,
    PublicKey,
    Release,
    Size,
    Text,
)


class Strict(BaseModel):
    # Built when first used: most of these are only ever used as a part of Site.
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True, defer_build=True
    )


class Network(Strict):
    cidr: Cidr
    """The whole network, such as 10.20.0.0/16."""
    interface: Interface | None = None
    """The head node's interface on this network."""
    head: IPv4Address | None = None
    """The head node's own address on this network."""
    node_range: AddressRange | None = None
    """Addresses given to nodes, in order; a node keeps its address."""
    discovery_range: AddressRange | None = None
    """Addresses lent to unknown hardware while a discovery window is open, and at no other time."""
    vlan: int | None = Field(default=None, ge=1, le=4094)
    """VLAN number, when the head node's interface carries it tagged."""
    mtu: int = Field(default=1500, ge=576, le=65520)
    """Largest packet on this network: 1500, 9000 for jumbo frames, up to 65520 on InfiniBand."""
    gateway: IPv4Address | None = None
    """Router that nodes use to leave this network; none when it is isolated."""
    dns: tuple[IPv4Address, ...] = ()
    """Name servers that the head node forwards to; none means only the cluster's own names."""
    dhcp: bool = False
    """On the management network: also hand out the BMCs' addresses, to those whose MAC was enrolled (bmc_mac)."""
    type: Literal["ethernet", "infiniband"] = "ethernet"
    """What the wire is. Nodes' InfiniBand ports are found by name (ib0 unless the port has another), not by MAC."""
    bond: Literal["active-backup", "802.3ad", "balance-xor"] | None = None
    """How nodes with several ports on this network use them as one; without it only the first port is used."""


class Settings(Strict):
    """What a node should be. Every one of these can be set for a profile, a group or a single node."""

    os: Literal["debian", "ubuntu"] | None = None
    """Distribution."""
    release: Release | None = None
    """Release of the distribution, such as 12 or 24.04."""
    architecture: Literal["x86_64", "aarch64"] | None = None
    """Processor architecture."""
    method: Literal["image", "autoinstall", "preseed"] | None = None
    """How the OS gets there: our image, Ubuntu's autoinstall or Debian's preseed."""
    image: ImageReference | None = None
    """Image to deploy, such as gpu or gpu@3; without a version, the newest."""
    layout: Label | None = None
    """Disk layout, by its name under `layouts`."""
    kernel_args: tuple[Text, ...] | None = None
    """Kernel arguments of the installed system."""
    console: Text | None = None
    """Serial console that the BMC shows, as the kernel writes it."""
    packages: tuple[Label, ...] | None = None
    """Packages beyond the base system."""
    nvidia_branch: Release | None = None
    """NVIDIA driver branch: none, auto (chosen for the GPUs found), a number such as 580 or 580-open, or an exact
    release such as 580.95.05."""
    nvidia_source: Literal["distro", "nvidia"] | None = None
    """Archive the NVIDIA stack comes from; the two are never mixed."""
    nvidia_modules: Literal["auto", "open", "proprietary"] | None = None
    """Kernel modules of the NVIDIA driver."""
    access: tuple[Label, ...] | None = None
    """Groups of the directory whose members may log in; all people when not given."""
    nvidia_mig: tuple[Text, ...] | None = None
    """Instances that every GPU is cut into (MIG), such as 3g.40gb 3g.40gb; none when empty."""
    rdma: Literal["none", "inbox", "doca"] | None = None
    """How network cards reach GPU memory: the kernel's own RDMA, or DOCA-OFED."""
    docker: Literal["none", "distro", "ce"] | None = None
    """Docker on the node: none, the distribution's, or Docker's own packages (the archive `docker`)."""
    enroot: bool | None = None
    """enroot and pyxis on the node, from the archive `enroot`."""
    start_watts: int | None = Field(default=None, ge=1, le=100_000)
    """Power drawn while starting, counted against the rack's budget."""
    gpus: int | None = Field(default=None, ge=0, le=64)
    """GPUs a node must have to be up; as many as were inspected when not given."""
    link_speed: int | None = Field(default=None, ge=10, le=1_000_000)
    """Least speed of every enrolled network port, in Mbit/s."""
    infiniband_ports: int | None = Field(default=None, ge=0, le=64)
    """InfiniBand ports that must be up."""
    infiniband_rate: int | None = Field(default=None, ge=1, le=10_000)
    """Least rate of every InfiniBand port, in Gbit/s."""
    bmc_user: Text | None = None
    """User name at the BMC."""
    bmc_driver: BmcDriver | None = None
    """How to talk to the BMC: auto, ipmi or redfish."""


class Profile(Settings):
    parent: Label | None = None
    """Profile that gives every setting not made here."""
    description: Text = ""
    """What this kind of node is for."""


class Group(Settings):
    description: Text = ""
    """What these nodes have in common."""


class DiskMatch(Strict):
    """Which disk is meant. All that is said must be true of it, and exactly one disk must fit; where several entries
    of a layout say the same, as many disks must fit. Removable and read-only disks never fit."""

    type: Literal["nvme", "ssd", "hdd"] | None = None
    """Kind of disk."""
    min_size: FixedSize | None = None
    """Smallest size that fits. Units are binary: a disk sold as 480 GB has 447G."""
    max_size: FixedSize | None = None
    """Largest size that fits."""
    model: Text | None = None
    """Model name, with * and ? as wildcards."""
    serial: Text | None = None
    """Serial number."""
    wwn: Text | None = None
    """World-wide name."""
    path: Text | None = None
    """Name under /dev/disk/by-path, with * and ? as wildcards."""
    rotational: bool | None = None
    """Whether it has spinning platters."""


class Volume(Strict):
    """One partition, logical volume or swap file."""

    name: Label
    """Its name, also the partition's label."""
    on: Label
    """The disk, RAID set or volume group it is on; for a swap file, the volume that holds the file."""
    size: Size
    """Fixed (512M), a share (20%) or all that is left (rest)."""
    min_size: FixedSize | None = None
    """A share or the rest is refused (rest) or raised (share) when it would be less than this."""
    max_size: FixedSize | None = None
    """A share is never more than this."""
    type: Literal["esp", "bios-boot", "ext4", "xfs", "swap", "swapfile", "raid", "lvm"] = "ext4"
    """What it holds."""
    mount: Text | None = None
    """Where it is mounted."""
    options: tuple[Text, ...] = ()
    """Mount options."""
    keep: bool = False
    """Survives reinstalling: found by its name, checked, and never formatted. For ext4 and xfs partitions on a disk."""


class Layout(Strict):
    description: Text = ""
    """What this layout is for."""
    disks: dict[Label, DiskMatch]
    """The disks it uses, by a name of your choice."""
    raid1: dict[Label, tuple[Label, ...]] = {}
    """Software RAID 1 sets, each a list of volumes of type raid on different disks; a set holds one volume."""
    lvm: dict[Label, tuple[Label, ...]] = {}
    """LVM volume groups, each a list of volumes of type lvm."""
    volumes: tuple[Volume, ...]
    """Partitions and volumes, in their order on the disk."""


class Rack(Strict):
    budget_watts: int | None = Field(default=None, ge=1)
    """Power the rack may draw: nodes are switched on in waves that stay below it, with what runs there already."""
    units: int = Field(default=42, ge=1, le=100)
    """Height in rack units."""
    location: Text = ""
    """Where it stands."""


class Time(Strict):
    servers: tuple[Text, ...] = ("2.debian.pool.ntp.org",)
    """Upstream time servers; an empty list means the head node's own clock is the cluster's."""
    nts: bool = False
    """Ask the upstream servers with NTS and believe nobody else; they have to offer it."""
    max_offset_ms: int = Field(default=100, ge=1, le=60_000)
    """A node whose clock is further off than this is not up."""


class Directory(Strict):
    mode: Literal["internal", "external"] = "internal"
    """internal: Headnode runs the LDAP server; external: it reads yours and never writes."""
    uri: Text | None = None
    """Address of the external LDAP server, such as ldaps://ldap.example.org."""
    base_dn: DistinguishedName | None = None
    """Base of the tree; made from the domain when not given."""
    admin_group: Label | None = "admin"
    """Group whose members may change the directory with LDAP tools and their own password; it is made for you."""
    first_id: int = Field(default=20_000, ge=2_000, le=1_000_000_000)
    """First UID and GID given to people and groups, above every distribution's own."""
    last_id: int = Field(default=59_999, ge=2_000, le=2_000_000_000)
    """Last UID and GID given."""
    bind_dn: DistinguishedName | None = None
    """External only: who to be there, when anonymous reading is not allowed."""
    bind_password_file: Text | None = None
    """External only: file with that account's password on its first line."""
    ca_file: Text | None = None
    """External only: certificate authority of its server; those that the machine trusts when not given."""
    flavour: Literal["rfc2307", "rfc2307bis", "ad"] = "rfc2307"
    """External only: how its groups name their members: memberUid, member, or Active Directory's way."""
    attributes: dict[Literal["name", "uid", "gid", "full_name", "email", "home", "shell", "ssh_keys"], Label] = {}
    """External only: what its entries call these, where that is not the schema's own name, such as {name: cn}."""


class Bmc(Strict):
    user: Text = "admin"
    """User name at the BMCs, unless a node, group or profile says otherwise."""
    password_file: Text | None = None
    """File with the BMC password on its first line, for nodes enrolled without one of their own."""
    head: IPv4Address | None = None
    """The head node's own BMC, which is never switched, whatever node it is enrolled as."""
    surge_seconds: int = Field(default=10, ge=1, le=600)
    """How long a node that starts counts with its start_watts against its rack's budget."""
    poll_seconds: int = Field(default=60, ge=1, le=86_400)
    """How often sensors and event logs are read."""
    raw_hours: int = Field(default=48, ge=1, le=8_760)
    """How long every sensor reading is kept; after that only an hour's lowest, mean and highest."""
    history_days: int = Field(default=400, ge=1, le=36_500)
    """How long the hourly values are kept."""
    console_megabytes: int = Field(default=64, ge=1, le=100_000)
    """Most that is kept of one node's console; the oldest goes first."""
    port: int = Field(default=9623, ge=1, le=65_535)
    """Port on this machine's loopback address for metrics and for consoles in the browser."""


class Boot(Strict):
    uefi: Literal["ipxe", "snponly", "shim"] = "ipxe"
    """First stage for UEFI machines: iPXE with its own drivers, iPXE on the firmware's driver, or signed shim and GRUB
    for Secure Boot."""
    network_first: bool = True
    """Deploying a UEFI machine puts the network first in its firmware's order, so that the head node decides at every
    start. With false the order is left alone: nodes with a disk before it start without the head node, and are
    deployed through their BMC."""
    probe_seconds: int = Field(default=60, ge=5, le=86_400)
    """How often to look for a foreign DHCP server while serving."""


class Archive(Strict):
    """A package archive beyond the distribution's own, or your mirror of it."""

    uri: Text
    """Its address."""
    suite: Text = "./"
    """Its suite; ./ for an archive without suites."""
    components: tuple[Label, ...] = ()
    """Its components, for an archive with suites."""
    key: Text
    """File on the head node with the public key that signs it, as text (.asc) or binary (.gpg)."""


class Packages(Strict):
    cache: bool = True
    """Run a package cache on the head node, on port 3142 of the provision network; nodes without a way out use it."""
    cache_days: int = Field(default=180, ge=1, le=36_500)
    """How long the cache keeps a package that nobody asks for."""
    proxy: Text | None = None
    """Another package cache that nodes and image builds go through, such as http://10.20.0.9:3142."""
    mirror: Text | None = None
    """Archive that nodes install Debian or Ubuntu packages from, instead of the distribution's own; `head` for what
    `headnode mirror import` brought to this head node."""
    pip_index: Text | None = None
    """Index that pip uses on nodes."""
    docker_mirror: Text | None = None
    """Registry mirror that Docker asks first, such as https://registry.example.org:5000."""
    registries: dict[Label, Text] = {}
    """Container registries with a certificate that is not publicly trusted: host or host:port, and the file on the head
    node with the certificate of the authority that signed it (PEM). Docker on every node then trusts it there."""
    archives: dict[Label, Archive] = {}
    """More archives. `nvidia` (drivers), `nvidia-toolkit`, `docker`, `doca` and `enroot` are used where needed."""
    http_proxy: Text | None = None
    """Proxy through which nodes reach the world outside; the cluster's own networks never go through it."""


class Export(Strict):
    """A directory that is mounted over NFS. `server:/directory` is a shorter way to say both."""

    server: Text = "head"
    """Who serves it: `head` is this head node, anything else the name or address of your own file server."""
    export: Text
    """The directory there. What the head node serves is made when it is missing."""

    @model_validator(mode="before")
    @classmethod
    def from_text(cls, value: object) -> object:
        if isinstance(value, str):
            server, colon, directory = value.partition(":")
            return {"server": server, "export": directory} if colon else {"export": value}
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "examples": ["nas.example.org:/export/home"]}, handler(schema)]}

    def __str__(self) -> str:
        return f"{self.server}:{self.export}"


class NfsMount(Strict):
    source: Export
    """Server and directory, such as nas.example.org:/export/data or head:/srv/datasets."""
    path: Text
    """Where nodes mount it."""
    read_only: bool = False
    """Nobody on a node can write there; where the head node serves it, the server refuses too."""
    options: tuple[Text, ...] = ()
    """Mount options beyond Headnode's own (NFS 4.2, hard, and fsc where the layout has a cache)."""


class Storage(Strict):
    home: Export | None = None
    """Server and directory that nodes mount at /home, such as {server: head, export: /srv/home}."""
    mounts: tuple[NfsMount, ...] = ()
    """More NFS mounts of every node."""


class Access(Strict):
    ssh_port: int = Field(default=22, ge=1, le=65_535)
    """Port of the nodes' SSH server."""
    admin_keys: tuple[PublicKey, ...] = ()
    """SSH public keys that may log in to nodes as root, also when the directory is down."""
    sudo_group: Label | None = None
    """Group of the directory whose members may use sudo on nodes."""
    admin_user: Account | None = None
    """Local account of every node for the day the directory is down: UID 1000, sudo, admin_keys, and the password that
    'headnode user passwd --break-glass' keeps sealed."""


class Web(Strict):
    listen: Listener = "127.0.0.1:8080"
    """Address and port of the pages and the API: this machine's loopback, or its address on the admins' network."""
    certificate: Text | None = None
    """Certificate (PEM, with its chain) for HTTPS; without it Headnode's own CA signs one. Loopback needs none."""
    key: Text | None = None
    """The certificate's private key, readable by root alone."""
    groups: dict[Label, Literal["viewer", "operator", "admin"]] = {}
    """Groups of the directory whose members may log in with their own password, and as what."""
    session_hours: int = Field(default=12, ge=1, le=720)
    """A login lasts at most so long."""
    idle_minutes: int = Field(default=60, ge=1, le=10_080)
    """A login that was not used for so long is over."""

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0]

    @property
    def port(self) -> str:
        return self.listen.rpartition(":")[2]

    @property
    def encrypted(self) -> bool:
        """Passwords never cross a network in the clear: everywhere but on loopback it is HTTPS."""
        return not IPv4Address(self.host).is_loopback or self.certificate is not None


class Notify(Strict):
    """Who is told when something happens."""

    severity: Literal["info", "warning", "error"] = "error"
    """The least severe events that are told."""
    webhook_file: Text | None = None
    """File with a web address on its first line, to which events are posted as JSON; such addresses are secrets."""
    mail_to: tuple[Text, ...] = ()
    """Who gets a mail."""
    mail_from: Text | None = None
    """The sender; headnode@DOMAIN when not given."""
    smtp: Text = "localhost:25"
    """Mail server that takes mail without a password, as HOST:PORT."""


class Database(Strict):
    url: Text | None = None
    """PostgreSQL URL for sites with more than one head node; an SQLite file when not given."""
    keep_days: int = Field(default=180, ge=30, le=36_500)
    """How long events are kept; what was asked of a node and how that ended stays for ever."""


class Site(Strict):
    """One cluster."""

    cluster: HostName
    """Name of the cluster."""
    domain: Domain
    """DNS domain of the cluster; nodes are NAME.DOMAIN."""
    networks: dict[Label, Network]
    """The cluster's networks. `provision` is needed, `management` is where the BMCs are; any others are yours."""
    time: Time = Time()
    """The cluster's clock."""
    directory: Directory = Directory()
    """Users and groups."""
    bmc: Bmc = Bmc()
    """Access to the BMCs."""
    boot: Boot = Boot()
    """How nodes start over the network."""
    packages: Packages = Packages()
    """Where packages come from."""
    storage: Storage = Storage()
    """Shared file systems that every node mounts."""
    access: Access = Access()
    """Who gets into nodes, and how."""
    web: Web = Web()
    """The pages and the API for people."""
    notify: Notify = Notify()
    """Who is told of what happens, by webhook or mail."""
    database: Database = Database()
    """Where the inventory is kept."""
    defaults: Settings = Settings()
    """Settings of every node that its own entry, its groups and its profile leave open."""
    profiles: dict[Label, Profile] = {}
    """Kinds of nodes."""
    groups: dict[Label, Group] = {}
    """Settings for groups of nodes; who is a member is in the inventory."""
    layouts: dict[Label, Layout] = {}
    """Disk layouts."""
    racks: dict[Label, Rack] = {}
    """Racks with their power budgets."""

    @property
    def provision(self) -> Network:
        return self.networks["provision"]

    @property
    def management(self) -> Network | None:
        return self.networks.get("management")


# What every node is when nobody says otherwise.
BUILT_IN = Settings(
    os="debian",
    release="12",
    architecture="x86_64",
    method="image",
    image="base",
    layout="single-disk",
    kernel_args=(),
    console="ttyS0,115200",
    packages=(),
    nvidia_branch="none",
    nvidia_source="distro",
    nvidia_modules="auto",
    nvidia_mig=(),
    rdma="none",
    docker="none",
    enroot=False,
    start_watts=500,
    bmc_driver=BmcDriver.AUTO,
)
