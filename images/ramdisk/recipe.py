"""What is in the ramdisk, and what of its packages is left out. Pure."""

from images.recipes import ARCHITECTURES, LEFTOVERS, Recipe, in_order, kernel_package

PACKAGES = (
    "busybox", "mount", "util-linux", "fdisk", "mdadm", "lvm2", "e2fsprogs", "xfsprogs", "dosfstools", "zstd", "tar",
    "nvme-cli", "pciutils", "dmidecode", "ipmitool", "ethtool", "python3", "openssh-server", "udev", "kmod", "iproute2",
    "efibootmgr", "less",
)  # fmt: skip
# For network and storage cards that cannot work without; Debian keeps these files apart.
FIRMWARE = (
    "firmware-bnx2", "firmware-bnx2x", "firmware-cavium", "firmware-misc-nonfree", "firmware-netronome",
    "firmware-qlogic",
)  # fmt: skip
UNUSED = (
    "usr/share/doc/*", "usr/share/doc-base/*", "usr/share/lintian/*", "usr/share/bug/*", "usr/share/bash-completion/*",
    "usr/share/zsh/*", "usr/share/perl/*", "usr/share/perl5/*", "usr/share/initramfs-tools/*",
    "usr/share/common-licenses/*",
    "usr/share/debconf/*", "usr/share/locales/*", "usr/share/zoneinfo/*", "usr/share/gcc/*", "usr/share/gdb/*",
    "usr/lib/*/perl/*", "usr/lib/*/perl-base/*", "usr/lib/*/libperl.so*", "usr/bin/perl*", "usr/lib/*/gconv/*",
    # xfs_scrub alone needs 30 MB of Unicode tables.
    "usr/sbin/xfs_scrub*", "usr/lib/*/libicu*",
    "usr/lib/klibc/*", "usr/lib/python3.*/ensurepip/*", "usr/lib/python3.*/lib2to3/*",
    "usr/lib/python3.*/pydoc_data/*", "usr/lib/python3.*/turtle*", "usr/lib/python3.*/idlelib/*",
    "usr/lib/systemd/system/*", "usr/lib/apt/*", "var/lib/dpkg/*", "var/lib/systemd/*", "var/cache/*", "var/backups/*",
    "etc/initramfs-tools/*", "etc/kernel/*", "etc/cron*", "etc/init.d/*", "etc/rc?.d/*", "boot/*",
    # Names of vendors and models, which no rule that matters here asks for.
    "usr/lib/udev/hwdb*", "etc/udev/hwdb*",
    # Nothing may be assembled or activated before the plan says so: a stale array holds its disks.
    "usr/lib/udev/rules.d/64-md-raid-assembly.rules", "usr/lib/udev/rules.d/69-lvm*.rules",
    # Drivers of what no server boots from.
    "usr/lib/modules/*/kernel/arch/x86/kvm/*", "usr/lib/modules/*/kernel/drivers/cpufreq/*",
    "usr/lib/modules/*/kernel/arch/x86/crypto/[!c]*", "usr/lib/modules/*/kernel/drivers/hid/*",
    "usr/lib/modules/*/kernel/sound/*", "usr/lib/modules/*/kernel/drivers/media/*",
    "usr/lib/modules/*/kernel/drivers/gpu/*", "usr/lib/modules/*/kernel/drivers/comedi/*",
    "usr/lib/modules/*/kernel/drivers/staging/*", "usr/lib/modules/*/kernel/drivers/iio/*",
    "usr/lib/modules/*/kernel/drivers/isdn/*", "usr/lib/modules/*/kernel/drivers/net/wireless/*",
    "usr/lib/modules/*/kernel/net/bluetooth/*", "usr/lib/modules/*/kernel/net/wireless/*",
    "usr/lib/modules/*/kernel/net/mac80211/*", "usr/lib/modules/*/kernel/net/netfilter/*",
    "usr/lib/modules/*/kernel/net/sched/*", "usr/lib/modules/*/kernel/fs/ocfs2/*", "usr/lib/modules/*/kernel/fs/gfs2/*",
    "usr/lib/modules/*/kernel/drivers/accessibility/*", "usr/lib/modules/*/kernel/drivers/bluetooth/*",
)  # fmt: skip


def ramdisk_recipe(kernel: str = "generic", *, firmware: bool = False, architecture: str = "x86_64") -> Recipe:
    """The cloud kernel knows virtual machines only, and is a third of the size."""
    arch = ARCHITECTURES[architecture]
    return Recipe(
        os="debian",
        suite="bookworm",
        architecture=arch,
        packages=in_order((*PACKAGES, *(FIRMWARE if firmware else ()))),
        kernel=kernel_package("debian", kernel, arch),
        variant="essential",
        components=("non-free-firmware",) if firmware else (),
        without=("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*"),
        drop=(*LEFTOVERS, *UNUSED),
        with_initrd=False,
    )
