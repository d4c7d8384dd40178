"""What goes into an image or the ramdisk, as data, and the command that means it. Pure; build.py runs it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headnode.errors import InvalidField
from images.nvidia.stack import Kind, Stack
from images.sources import Source, preferences

SUITES = {
    ("debian", "12"): "bookworm",
    ("debian", "13"): "trixie",
    ("ubuntu", "22.04"): "jammy",
    ("ubuntu", "24.04"): "noble",
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Each distribution's own public archive: used when this machine's apt knows nothing of that release, and written into
# the image, whose nodes' overlay says which mirror and proxy they really use.
PUBLIC = {
    "debian": (
        ("http://deb.debian.org/debian", ("{suite}", "{suite}-updates"), ("main",)),
        ("http://deb.debian.org/debian-security", ("{suite}-security",), ("main",)),
    ),
    "ubuntu": (
        ("http://archive.ubuntu.com/ubuntu", ("{suite}", "{suite}-updates", "{suite}-security"), ("main", "universe")),
    ),
}
KERNELS = {
    ("debian", "generic"): "linux-image-{arch}",
    ("debian", "cloud"): "linux-image-cloud-{arch}",
    ("ubuntu", "generic"): "linux-image-generic",
    ("ubuntu", "cloud"): "linux-image-virtual",
}
# A node that can boot from its disk, be reached, and take part in the cluster.
BASE = (
    "systemd-sysv", "dbus", "udev", "kmod", "initramfs-tools", "zstd", "iproute2", "netbase", "ca-certificates",
    "openssh-server", "sudo", "less", "python3", "e2fsprogs", "xfsprogs", "dosfstools", "mdadm", "lvm2", "chrony",
    "sssd-ldap", "libnss-sss", "libpam-sss", "libsss-sudo", "nfs-common", "cachefilesd", "pciutils", "ethtool",
    "ipmitool", "prometheus-node-exporter",
)  # fmt: skip
# What only one distribution needs beyond that: Ubuntu's networks are described to netplan.
OWN = {"ubuntu": ("netplan.io",)}
LOADERS = {
    "amd64": (
        "grub2-common",
        "grub-pc-bin",
        "grub-efi-amd64-bin",
        "grub-efi-amd64-signed",
        "shim-signed",
        "efibootmgr",
    ),
    "arm64": ("grub2-common", "grub-efi-arm64-bin", "grub-efi-arm64-signed", "shim-signed", "efibootmgr"),
}
# Left behind by the machine that builds, or different in every build: also byte code that Python wrote while packages
# were being set up, whose bytes depend on what else was imported.
LEFTOVERS = (
    "usr/share/python3/debpython/__pycache__/*",
    "etc/hostname", "etc/resolv.conf", "etc/ssh/ssh_host_*", "var/lib/dbus/machine-id", "var/lib/systemd/random-seed",
    "var/log/*", "var/cache/apt/*", "var/cache/debconf/*-old", "var/cache/man/*", "var/lib/apt/lists/*",
    "tmp/*", "var/tmp/*", "run/*", "var/cache/ldconfig/*", "var/lib/dpkg/*-old", "etc/*-", "etc/apt/sources.list",
    "etc/apt/sources.list.d/*",
    # DKMS makes a key of its own and signs with it; no machine knows it, and nobody else should.
    "var/lib/dkms/mok.*", "var/lib/shim-signed/mok/*",
    "etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
)  # fmt: skip
PREFERENCES = "etc/apt/preferences.d/headnode"
MDADM_CONF = "HOMEHOST <system>\nMAILADDR root\n"


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a build makes, except the state of the archive."""

    os: str
    suite: str
    architecture: str
    packages: tuple[str, ...]
    kernel: str
    variant: str = "minbase"
    components: tuple[str, ...] = ()
    # Where everything comes from, instead of what this machine's apt uses.
    sources: tuple[Source, ...] = ()
    # Archives beyond the distribution's, and what apt is to hold at one release ("name=release").
    archives: tuple[Source, ...] = ()
    pins: tuple[str, ...] = ()
    # Never unpacked: documentation and translations nobody on a node reads.
    without: tuple[str, ...] = ("/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*")
    drop: tuple[str, ...] = LEFTOVERS
    with_initrd: bool = True

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def image_recipe(
    settings: Mapping[str, Any], *, kernel: str = "generic", stack: Stack | None = None, archives: Sequence[Source] = ()
) -> Recipe:
    """The image of a profile; `settings` are the profile's effective ones, `stack` what its nodes' GPUs need."""
    distribution, release = str(settings["os"]), str(settings["release"])
    architecture = ARCHITECTURES[str(settings["architecture"])]
    chosen = kernel_package(distribution, kernel, architecture)
    packages = (*BASE, *OWN.get(distribution, ()), *LOADERS[architecture], *(settings.get("packages") or ()))
    more = (
        [headers_of(chosen) if name.startswith("linux-headers-") else name for name in stack.packages] if stack else []
    )
    return Recipe(
        distribution,
        suite_of(distribution, release),
        architecture,
        in_order([*packages, *more]),
        chosen,
        components=stack.values(Kind.COMPONENT) if stack else (),
        archives=tuple(archives),
        pins=stack.values(Kind.PIN) if stack else (),
    )


def headers_of(kernel: str) -> str:
    """What modules are compiled against is the kernel's that the image starts."""
    return kernel.replace("linux-image", "linux-headers")


def suite_of(distribution: str, release: str) -> str:
    suite = SUITES.get((distribution, release))
    if suite is None:
        known = ", ".join(number for name, number in SUITES if name == distribution)
        raise InvalidField("release", release, f"images of {distribution} can be built for {known}")
    return suite


def kernel_package(distribution: str, flavour: str, architecture: str) -> str:
    return KERNELS[distribution, flavour].format(arch=architecture)


def in_order(packages: Sequence[str]) -> tuple[str, ...]:
    """Sorted and without repeats, so that the same set is the same recipe."""
    return tuple(sorted(set(packages)))


def public_sources(distribution: str, suite: str) -> tuple[Source, ...]:
    return tuple(
        Source((uri,), tuple(name.format(suite=suite) for name in suites), components)
        for uri, suites, components in PUBLIC[distribution]
    )


def mmdebstrap_argv(recipe: Recipe, apt_options: Sequence[str] = ()) -> list[str]:
    """Sources come on its standard input, the tar goes to its standard output."""
    return [
        "mmdebstrap", "--verbose", "--mode=root", "--format=tar", f"--variant={recipe.variant}",
        f"--architectures={recipe.architecture}",
        f"--include={','.join((*recipe.packages, recipe.kernel))}",
        *(f"--components={','.join(recipe.components)}" for _ in recipe.components[:1]),
        *(f"--aptopt={option}" for option in apt_options),
        # The file system being filled is thrown away when anything fails.
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.without),
        # Otherwise mdadm writes today's date and this machine's arrays into its own configuration, and into the initrd.
        *pin_hook(recipe),
        f"--essential-hook=mkdir -p \"$1/etc/mdadm\" && printf '{escaped(MDADM_CONF)}' > \"$1/etc/mdadm/mdadm.conf\"",
        recipe.suite, "-", "-",
    ]  # fmt: skip


def pin_hook(recipe: Recipe) -> list[str]:
    """apt's preferences are there before anything that they are about is installed."""
    if not recipe.pins:
        return []
    text = escaped(preferences(recipe.pins))
    return [f"--essential-hook=printf '{text}' > \"$1/{PREFERENCES}\""]


def escaped(text: str) -> str:
    return text.replace("\n", "\\n")
